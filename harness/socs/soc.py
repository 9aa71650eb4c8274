"""The words to declare a system on chip with.

A file of this folder declares one system as `SOC`. The virtual board, the FVP targets, the launchers, preflight and the
firmware's build read it. Addresses are those of secure code, because the firmware runs in the secure state. Where
non-secure code has another address for the same bytes, `alias` names it. Systems differ in how the two addresses
relate, so neither is computed from the other.
"""

from __future__ import annotations

from ethos_hil.base.dataclasses import dataclass, field
from ethos_hil.base.npu.family import Family

KIB, MIB = 1 << 10, 1 << 20
LEAST_BAUD_DIVIDER = 16
"""Of a CMSDK APB UART (Arm Cortex-M System Design Kit TRM, "APB UART"): cycles of its clock for a bit."""


@dataclass(frozen=True)
class Window:
    """A range of addresses.

    Attributes:
        base: its first address, for secure code.
        size: bytes.
        alias: its first address for non-secure code; None where that is the same.
    """

    base: int
    size: int
    alias: int | None = None

    @property
    def bases(self) -> tuple[int, ...]:
        """Return all addresses at which it starts, the lowest first."""
        return (self.base,) if self.alias is None else tuple(sorted((self.base, self.alias)))

    def holds(self, address: int, size: int) -> bool:
        """Return whether all of `size` bytes at `address` are in it."""
        return any(base <= address and address + size <= base + self.size for base in self.bases)

    def offset_of(self, address: int) -> int | None:
        """Return how many bytes `address` is behind the start, or None where it is outside."""
        return next((address - base for base in self.bases if base <= address < base + self.size), None)


@dataclass(frozen=True)
class Memory(Window):
    """A memory. The processor reaches all of them.

    Attributes:
        name: its name in messages and linker scripts.
        npu: whether the NPU reaches it too.
        read_only: whether the processor cannot write it; a debugger or a board's loader does.
        most: bytes that it has on boards with more of it than others; 0 where all have `size`.
    """

    name: str = field(kw_only=True)
    npu: bool = field(default=False, kw_only=True)
    read_only: bool = field(default=False, kw_only=True)
    most: int = field(default=0, kw_only=True)


@dataclass(frozen=True)
class Fvp:
    """Arm's model of a system with one kind of NPU, as its command line names it.

    Attributes:
        executable: the program.
        cpu_path, npu_path, board_path: instance paths of the processor, the NPU and the board's peripherals, which the
            names of parameters start with.
        settings: parameters that every run gets as well as those that all FVPs have, with their values.
        runner_settings: parameters that only a run by semihosting gets.
    """

    executable: str
    cpu_path: str
    npu_path: str
    board_path: str
    settings: tuple[tuple[str, str], ...] = ()
    runner_settings: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class NpuChoice:
    """One kind of NPU that a system can have.

    Attributes:
        family: of the NPU.
        macs: the MAC counts it comes with.
        default_macs: the MAC count of an FVP without a setting.
        fvp: the FVP that has it, or None.
    """

    family: Family
    macs: tuple[int, ...]
    default_macs: int
    fvp: Fvp | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of its configurations: "ethos-u55-32" and so on."""
        return tuple(f"ethos-{self.family}-{macs}" for macs in self.macs)


@dataclass(frozen=True)
class CardWindow(Window):
    """A part of the address space that the controller of an MPS board writes to.

    Attributes:
        controller: the controller's address of its start.
        port: the number that IMAGEnPORT of images.txt has for it; None on boards without.
    """

    controller: int = field(kw_only=True)
    port: int | None = field(default=None, kw_only=True)


@dataclass(frozen=True)
class ImageCard:
    """How the controller of an MPS board loads images, as images.txt on its memory card tells it.

    Attributes:
        fpga: the FPGA images that the windows are those of, as the board's folders call them: "AN547 or AN552".
        update: IMAGEnUPDATE: "AUTO" or "RAM".
        digits: hexadecimal digits of an address, in groups of four if there are more than eight.
        windows: where it can write.
    """

    fpga: str
    update: str
    digits: int
    windows: tuple[CardWindow, ...]


@dataclass(frozen=True)
class FirmwareBoard:
    """How the firmware is built for a system, and where its parts go. Each place is the name of a memory.

    Attributes:
        name: of its folder below firmware/boards and below build/firmware, and of its preset.
        port: the folder below firmware/boards with the code for this kind of board.
        driver: the file below firmware/npu for its families of NPU, without its ending.
        boot: where the processor finds its vector table; code and initial data that fit go there too.
        code: the rest of the code, and constants.
        data: variables and the stack of the fault handler.
        stack: the main stack.
        pool: the memory next to the NPU. The part that nothing is linked into is a pool for programs.
        package: where the host puts program and inputs. The rest of the window is the second pool.
        without: kernels that it does without, to save memory: names ("aten::sin.out") or beginnings of names
            ("aten::upsample_*").
        cpu: the processor that the code is made for, as GCC's -mcpu spells it.
    """

    name: str
    port: str
    driver: str
    boot: str
    code: str
    data: str
    stack: str
    pool: str
    package: Window
    without: tuple[str, ...] = ()
    cpu: str = "cortex-m55"


@dataclass(frozen=True)
class Soc:
    """A system on chip, and its board as far as programs see it.

    Attributes:
        name: its name in targets and records.
        number: the number that the firmware reports in its HELLO frame.
        summary: subsystem, board and processor, in a few words.
        boot: address of the vector table that the processor starts from.
        cpu_hz, peripheral_hz: clocks of the processor and of the UART.
        memories: all of them.
        npus: the kinds of NPU it can have.
        npu_registers: the NPU's registers.
        npu_irq: number of its interrupt.
        uarts: UART 0. Where sources disagree about its address, all of these; the firmware uses the first one at which
            it finds it.
        firmware: how the firmware is built for it.
        timing_adapters: register blocks of the adapters between the NPU's two AXI ports and the memories; None if it
            never has any. FPGA images may leave them out.
        timing_adapter_ports: first address of the adapter at each port; () without any, which is 0 in the firmware.
        secure_bit: the bit of an address that is set in those of secure code, as in all of Arm's Corstones; other parts
            have it the other way round.
        virtual: whether the virtual board can be it: QEMU's machine has the memories that its firmware needs.
        card: how its board loads images; None where that is not known.
        uart: its UART's driver: a file below firmware/boards/uarts, without its ending.
        uart_options: numbers that the driver needs: ("REGISTER_STRIDE", 4) is UART_REGISTER_STRIDE in soc.h.
        options: numbers that the code of its port needs, by their names in soc.h.
        interrupts: length of the vector table behind the 16 exceptions of the core.
    """

    name: str
    number: int
    summary: str
    boot: int
    cpu_hz: int
    peripheral_hz: int
    memories: tuple[Memory, ...]
    npus: tuple[NpuChoice, ...]
    npu_registers: Window
    npu_irq: int
    uarts: tuple[Window, ...]
    firmware: FirmwareBoard
    timing_adapters: Window | None = None
    timing_adapter_ports: tuple[int, ...] = ()
    secure_bit: int = 1 << 28
    virtual: bool = False
    card: ImageCard | None = None
    uart: str = "cmsdk"
    uart_options: tuple[tuple[str, int], ...] = ()
    options: tuple[tuple[str, int], ...] = ()
    interrupts: int = 128

    def memory(self, name: str) -> Memory:
        """Return the memory called `name`.

        Raises:
            KeyError: there is none.
        """
        for memory in self.memories:
            if memory.name == name:
                return memory
        raise KeyError(f"{self.name} has no memory {name!r}; it has {', '.join(area.name for area in self.memories)}")

    def memory_at(self, address: int) -> Memory | None:
        """Return the memory that has `address`, or None."""
        return next((memory for memory in self.memories if memory.offset_of(address) is not None), None)

    @property
    def npu_names(self) -> tuple[str, ...]:
        """Return the names of all configurations of NPUs that it can have."""
        return tuple(name for npu in self.npus for name in npu.names)
