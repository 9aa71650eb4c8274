"""`make fvp-check`: what our FVP driver, firmware and NPU model say of an FVP of Arm's, in one file to send.

No one who wrote ethos-hil had an FVP: what this finds on one is what is missing here.
"""
