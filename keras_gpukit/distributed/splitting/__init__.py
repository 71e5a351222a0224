"""Splits a model over devices.

`units` lists the layers, `costs` measures them, `balance` cuts the list, `rebuild` copies the
model to the devices, and `steps` keeps backward pass and updates on the devices of their layers.
"""
