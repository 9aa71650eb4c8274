"""The virtual Corstones: QEMU's processor and memories, with the functional NPU behind the registers.

qemu (the process), gdb, qtest and qmp (its interfaces), board (QEMU with an image in it, then with another), pool
(boards that wait for a run), memory (the guest's RAM), intercepted_access (a load or store that stopped the guest),
device with registers and pmu (the NPU), engine (its jobs), peripherals (other registers that QEMU lacks), semihosting
(the calls that the host answers), and machine (a run of an image on a board).

`ethos_hil.harness.targets.virtual` makes a target of it, `ethos_hil.harness.fvp_stand_in` a stand-in for Arm's FVPs.
"""
