/* Reset of the test programs: as a board's start-up, then the C library's own, which asks for heap and stack. */
    .syntax unified
    .thumb

    .section .vectors, "a"
    .word __stack
    .word reset
    .rept 14
    .word unexpected
    .endr
    .rept NPU_IRQ
    .word unexpected
    .endr
    .word npu_interrupt
    .rept 32
    .word unexpected
    .endr

    .text
    .thumb_func
    .global reset
    .type reset, %function
reset:
    ldr r0, =__stack_limit
    msr msplim, r0
    ldr r0, =0xE000ED08 /* VTOR */
    ldr r1, =__vectors
    str r1, [r0]
    ldr r0, =0xE001E300 /* CPDLPSTATE: core and EPU stay on */
    ldr r1, [r0]
    bic r1, r1, #0x33
    str r1, [r0]
    ldr r0, =0xE000ED88 /* CPACR: floating point and vectors */
    ldr r1, [r0]
    orr r1, r1, #(0xF << 20)
    str r1, [r0]
    dsb
    isb
    ldr r0, =_start
    bx r0
    .size reset, . - reset

    .thumb_func
    .type unexpected, %function
unexpected:
    b unexpected
    .size unexpected, . - unexpected
