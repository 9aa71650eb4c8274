@ What each guest starts with: its vectors, macros, and a reset handler with r0 = the NPU's secure base address.

    .syntax unified
    .thumb

    .macro send                 @ r4 as four bytes, least significant first; changes r5 to r7
    ldr r5, =0x59303000
    movs r6, #16
    str r6, [r5, #16]
    movs r6, #1
    str r6, [r5, #8]
    movs r7, #4
1:  ldr r6, [r5, #4]
    lsls r6, r6, #31
    bne 1b
    str r4, [r5]
    lsrs r4, r4, #8
    subs r7, #1
    bne 1b
    .endm

    .macro job irq              @ a lone STOP at 0x70001000, run with the interrupt enabled; its handler counts in r8
    ldr r1, =0xE000ED08         @ vectors into the DTCM, ours for the NPU's interrupt
    ldr r2, =0x30000000
    ldr r3, =handler
    str r3, [r2, #4 * (16 + \irq)]
    str r2, [r1]
    ldr r1, =0xE000E100 + \irq / 32 * 4    @ NVIC_ISER
    ldr r2, =1 << (\irq % 32)
    str r2, [r1]
    mov r8, #0
    ldr r1, =0xFFFF0000
    ldr r2, =0x70001000
    str r1, [r2]
    str r2, [r0, #0x10]
    movs r1, #4
    str r1, [r0, #0x20]
    movs r1, #1
    str r1, [r0, #8]
    nop
    mov r4, r8
    .endm

    .macro handle_job npu
    .ltorg
    .thumb_func
    .type handler, %function
handler:
    ldr r0, =\npu               @ v8.1-M clears the caller-saved registers
    add r8, r8, #1
    movs r1, #2
    str r1, [r0, #8]
    dsb
    bx lr
    .ltorg
    .endm

    .macro set_up uart          @ r8 = the UART; faults are BusFaults of their own, with `absent` as their handler
    ldr r1, =0xE000ED08
    ldr r2, =0x31000000
    ldr r3, =absent
    mov r4, #0
1:  str r3, [r2, r4, lsl #2]
    adds r4, #1
    cmp r4, #16
    bne 1b
    str r2, [r1]
    ldr r1, =0xE000ED24
    mov r2, #0x20000
    str r2, [r1]
    dsb
    isb
    ldr r8, =\uart
    movs r6, #16
    str r6, [r8, #0x10]
    movs r6, #1
    str r6, [r8, #8]
    .endm

    .macro send_there           @ r4 as four bytes, to the UART at r8
    movs r7, #4
1:  ldr r6, [r8, #4]
    lsls r6, r6, #31
    bmi 1b
    str r4, [r8]
    lsrs r4, r4, #8
    subs r7, #1
    bne 1b
    .endm

    .macro enable_vectors
    ldr r2, =0xE000ED88
    mov r3, #0xF00000
    str r3, [r2]
    dsb
    isb
    .endm

    .macro start_job            @ whose command stream is at r2
    str r2, [r0, #0x10]
    movs r1, #4
    str r1, [r0, #0x20]
    movs r1, #1
    str r1, [r0, #8]
    .endm

    .macro enable_floating_point
    ldr r1, =0xE001E300
    ldr r2, [r1]
    bic r2, #0x33
    str r2, [r1]
    ldr r1, =0xE000ED88
    ldr r2, =0xF00000
    str r2, [r1]
    dsb
    isb
    .endm

    .macro set_up_uart          @ QEMU's own
    ldr r8, =0x59303000
    movs r6, #16
    str r6, [r8, #16]
    movs r6, #1
    str r6, [r8, #8]
    .endm

    .macro send_byte            @ to the UART at r8, without a look at its state
    movs r6, #0x41
    str r6, [r8]
    .endm

    .macro park
park:
    b park
    .ltorg
    .endm

    .macro done                 @ sends a full stop to the UART at r8, and parks
1:  ldr r6, [r8, #4]
    lsls r6, r6, #31
    bmi 1b
    movs r6, #0x2E
    str r6, [r8]
2:  b 2b
    .ltorg
    .endm

    .macro finish               @ sets UART 0 up, sends a full stop, and parks
    ldr r8, =0x59303000
    movs r6, #16
    str r6, [r8, #16]
    movs r6, #1
    str r6, [r8, #8]
    ldr r6, [r8, #4]
    movs r6, #0x2E
    str r6, [r8]
    park
    .endm

    .macro handle_absent        @ sends 0x41424F52, the address of the fault, and that it is done
    .thumb_func
    .type absent, %function
absent:
    ldr r4, =0x41424F52
    send_there
    ldr r1, =0xE000ED38
    ldr r4, [r1]
    send_there
    done
    .endm

    .section .vectors, "a"
    .word 0x30080000
    .word reset
    .rept 110
    .word unexpected
    .endr
    .text
    .thumb_func
    .type unexpected, %function
unexpected:
    b unexpected
    .size unexpected, . - unexpected
    .thumb_func
    .type reset, %function
reset:
    ldr r0, =NPU
