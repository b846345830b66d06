"""Differential test: the kernel against another scheduler, step by step, on random small cases.

The other one is vLLM's own class (`profiler/engines/vllm/scheduler_only.py`, chosen by the caller,
because nothing here may import vLLM) or, in the tests, a slow twin in plain Python.
"""
