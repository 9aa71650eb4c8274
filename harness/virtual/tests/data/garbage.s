@ Leaves garbage in all RAM and in every register that needs no guard; what faults is left out. In the end no exception
@ can be taken, interrupts are enabled and pending, and the NPU is busy. `places` follow: address and words of each.

    cpsid i
    ldr r1, =0xE000ED08      @ VTOR: every exception to `skip`
    ldr r2, =0x30070000
    ldr r3, =skip
    mov r4, #0
1:  str r3, [r2, r4, lsl #2]
    adds r4, #1
    cmp r4, #400
    bne 1b
    str r2, [r1]
    ldr r1, =0xE000ED88      @ CPACR: floating point
    mov r2, #0xF00000
    str r2, [r1]
    dsb
    isb
    ldr r4, =0x9E3779B9
    ldr r5, =places
2:  ldr r6, [r5], #4
    cbz r6, 4f
    ldr r7, [r5], #4
3:  mul r4, r4, r4
    add r4, r4, r7
    str r4, [r6]
    adds r6, #4
    subs r7, #1
    bne 3b
    b 2b
4:
    .macro give register, value     @ a register of the processor that only goes with values of a kind
    ldr r1, =0xE000E000 + \register
    ldr r2, =\value
    str r2, [r1]
    .endm
    give 0xD98, 0                   @ a region of the MPU, and its enable bit
    give 0xD9C, 0x9F000000
    give 0xDA0, 0x9F00FFE1
    give 0xD94, 5
    give 0xDD8, 0                   @ the same for the SAU
    give 0xDDC, 0x9F000000
    give 0xDE0, 0x9F00FFE1
    give 0xDD0, 1
    vmov s0, s1, r4, r4
    vmov d15, r4, r4
    mov r1, #0x55
    msr basepri, r1
    msr psplim, r4
    msr psp, r4
    msr msp_ns, r4
    msr control_ns, r4
    cpsid f
    movs r2, #6              @ thread mode goes on with the process's stack
    msr control, r2
    movs r1, #1              @ the NPU starts a job
    str r1, [r0, #8]
park:
    b park
    .thumb_func
    .type skip, %function
skip:
    ldr r1, [sp, #24]
    adds r1, #2
    str r1, [sp, #24]
    bx lr
    .ltorg
    .balign 4
places:
