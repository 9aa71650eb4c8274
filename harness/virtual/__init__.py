"""The virtual Corstones: QEMU's processor and memories, with the functional NPU behind the registers.

soc (which Corstone), qemu (the process), gdb, qtest and qmp (its interfaces), board (QEMU with an image in it, and then
with another), pool (boards that wait for one), memory (the guest's RAM), access (the intercepted load or store), device
with registers and pmu (the NPU), engine (its jobs), peripherals (what else answers there), elf and semihosting (the
calls that the host answers), and machine (a run of an image on a board).
`ethos_hil.harness.targets.virtual` makes a target of it, `ethos_hil.harness.fvp_stand_in` a stand-in for Arm's FVPs.
"""
