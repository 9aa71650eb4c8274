"""The virtual Corstones: QEMU's processor and memories, with the functional NPU behind the registers.

soc (which Corstone), qemu (the process), gdb and qtest (its two interfaces), memory (the guest's RAM), access (the
intercepted load or store), device with registers and pmu (the NPU), engine (its jobs), peripherals (what else answers
there), elf and semihosting (the calls that the host answers), and machine, which puts them together.
`harness.targets.virtual` makes a target of it, `harness.fvp` a stand-in for Arm's FVPs.
"""
