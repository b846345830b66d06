"""The link that keys and values move over: measured (`measure`), fitted (`fit`), kept (`artefact`).

A load of B bytes takes latency + B / bandwidth. `endpoint.py`, a process of its own, is the only
file that imports NIXL.
"""
