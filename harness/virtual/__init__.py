"""The virtual Corstone-300: QEMU's processor and memories, with the functional NPU behind the registers.

qemu (the process), gdb and qtest (its two interfaces), memory (the guest's RAM), access (the intercepted load or
store), device (the NPU's registers), engine (its jobs), and machine, which puts them together.
`harness.targets.virtual` makes a target of it.
"""
