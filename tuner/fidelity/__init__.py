"""The simulator with published GPU data against end-to-end measurements that others published."""
