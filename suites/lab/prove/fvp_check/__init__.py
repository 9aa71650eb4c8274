"""`make fvp-check`: what our FVP driver, firmware and NPU model say of an FVP of Arm's, in one file to send.

programs (what is run), examination (one FVP), suites (tests on it), parcel (the file). No one who wrote ethos-hil had
an FVP: what this finds on one is what is missing here.
"""
