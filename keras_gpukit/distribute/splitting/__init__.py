"""Splitting a model over devices: what to move, what it weighs, where to cut, and the moving.

`units` lists the layers, `costs` measures them, `balance` cuts the list, `rebuild` makes the
model again on the devices, and `steps` keeps backward pass and updates where their layers are.
"""
