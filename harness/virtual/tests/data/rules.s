@ Programs for the strict board. A line of === has the name of what follows, the system and its rules; programs are apart
@ by blank lines. Each ends with `finish`.

=== a word of a TCM is written before it is read | corstone-300 | tcm-ecc memory-pattern

    ldr r1, =0x30001000; str r1, [r1]; ldr r2, [r1]; ldrb r2, [r1, #3]; strb r2, [r1, #1]

    ldr r1, =0x30001000
    str r1, [r1]
    ldr r1, =0x20001000
    ldr r2, [r1]   @ the same word

    ldr r1, =0x30001000; push {r1}; pop {r2}; strd r1, r2, [r1]; ldrd r1, r2, [r1]

    ldr r1, =0x31001000
    ldr r2, [r1]
    strb r2, [r1, #9]                   @ SRAM, not a TCM

    ldr r1, =0x30001000; ldr r2, [r1]

    ldr r1, =0x20001000; ldr r2, [r1]

    ldr r1, =0x30001000; ldrb r2, [r1, #2]

    ldr r1, =0x30001000; strb r1, [r1, #2]

    ldr r1, =0x30001000; strh r1, [r1]

    ldr r1, =0x30001000; str r1, [r1, #2]

    ldr r1, =0x30001000; str r1, [r1]; ldrd r2, r3, [r1]

    sub sp, #8; pop {r2}

    ldr r1, =0x10007F00; ldr r2, [r1]

    ldr r1, =0x10007F00; strb r2, [r1]

=== also on a Corstone-320 | corstone-320 | tcm-ecc memory-pattern

    ldr r1, =0x30001000; str r1, [r1]; ldr r2, [r1]; ldrb r2, [r1, #3]; strb r2, [r1, #1]

    ldr r1, =0x30001000
    str r1, [r1]
    ldr r1, =0x20001000
    ldr r2, [r1]   @ the same word

    ldr r1, =0x30001000; ldr sp, =0x30008000; push {r1}; pop {r2}; strd r1, r2, [r1]; ldrd r1, r2, [r1]

    ldr r1, =0x31001000
    ldr r2, [r1]
    strb r2, [r1, #9]                   @ SRAM, not a TCM

    ldr r1, =0x30001000; ldr r2, [r1]

    ldr r1, =0x20001000; ldr r2, [r1]

    ldr r1, =0x30001000; ldrb r2, [r1, #2]

    ldr r1, =0x30001000; strb r1, [r1, #2]

    ldr r1, =0x30001000; strh r1, [r1]

    ldr r1, =0x30001000; str r1, [r1, #2]

    ldr r1, =0x30001000; str r1, [r1]; ldrd r2, r3, [r1]

    ldr sp, =0x30008000; sub sp, #8; pop {r2}

    ldr r1, =0x10007F00; ldr r2, [r1]

    ldr r1, =0x10007F00; strb r2, [r1]

=== what an exception pushes is written | corstone-300 | tcm-ecc memory-pattern

    ldr r1, =0xE000ED08
    ldr r2, =0x31000000
    ldr r3, =called
    str r3, [r2, #44]        @ SVCall
    str r2, [r1]
    dsb
    svc #0
    finish
    .thumb_func
    .type called, %function
    called: ldr r1, [sp, #24]
    strb r1, [sp, #24]
    ldrb r1, [sp, #1]
    bx lr

    ldr r1, =0xE000ED08
    ldr r2, =0x31000000
    ldr r3, =called
    str r3, [r2, #44]        @ SVCall
    str r2, [r1]
    dsb
    svc #0
    finish
    .thumb_func
    .type called, %function
    called: ldr r1, [sp, #-4]
    bx lr

=== QEMU's own UART is set up and asked | corstone-300 | uart

    set_up_uart; send_byte

    set_up_uart; send_byte; send_byte

    ldr r8, =0x59303000
    movs r6, #16
    @ str r6, [r8, #16]
    movs r6, #1
    str r6, [r8, #8]
    send_byte

    ldr r8, =0x59303000; movs r6, #16; str r6, [r8, #16]; movs r6, #1; send_byte

    ldr r8, =0x59303000; movs r6, #15; str r6, [r8, #16]; movs r6, #1; str r6, [r8, #8]; send_byte
    ldr r1, [r0, #0x28]

    set_up_uart; ldr r1, [r0, #0x28]

=== device memory is accessed aligned and by words | corstone-300 | bus

    ldr r1, =0x59303000; ldr r2, [r1]; ldrb r2, [r1, #3]; ldrd r2, r3, [r1]; ldm r1, {r2, r3}

    ldr r1, =0xA0000000; str r1, [r1]; ldrh r2, [r1, #2]

    ldr r1, =0x60000000
    ldr r2, [r1, #1]
    ldrex r2, [r1]
    strex r3, r2, [r1]   @ Normal memory

    ldr r1, =0xA0000000; ldr r2, [r1, #1]

    ldr r1, =0xA0000000; strh r2, [r1, #3]

    ldr r1, =0x59303000; ldrh r2, [r1, #1]

    ldr r1, =0xA0000000; ldrex r2, [r1]

    ldr r1, =0xA0000000; ldrexb r2, [r1]

    ldr r1, =0xA0000000; ldaexh r2, [r1]

    ldr r1, =0xA0000000; ldaex r2, [r1]

    ldr r1, =0x60000000; ldr r3, =0xA0000000; ldrex r2, [r1]; mov r1, r3; strex r4, r2, [r1]; ldrexh r2, [r3]

    enable_floating_point; ldr r1, =0xA0000000; vldr d0, [r1]

    enable_floating_point; ldr r1, =0xA0000001; .arch_extension mve; vstrb.8 q0, [r1]; vldrh.u16 q0, [r1]

=== memories of a Corstone-300 | corstone-300 | part-memories

    ldr r1, =0x1107FFFC; str r1, [r1]

    ldr r1, =0x110FFFFC; str r1, [r1]; ldr r1, =0x21000000; ldr r1, [r1]

    ldr r1, =0x11100000; str r1, [r1]

    ldr r1, =0x31200000; ldr r1, [r1]

    ldr r1, =0x21200000; ldr r1, [r1]

=== memories of a Corstone-310 | corstone-310 | part-memories

    ldr r1, =0x10007FFC; str r1, [r1]; ldr r1, =0x111FFFFC; str r1, [r1]

    ldr r1, =0x10008000; ldr r1, [r1]

    ldr r1, =0x30008000; str r1, [r1]

    ldr r1, =0x10007000; ldr r2, =0x4770; str r2, [r1]; adds r1, #1; blx r1

    ldr r1, =0x10008000; ldr r2, =0x4770; nop; adds r1, #1; blx r1

=== memories of a Corstone-320 | corstone-320 | part-memories

    ldr r1, =0x313FFFFC; str r1, [r1]; ldr r1, =0x1101FFFC; ldr r1, [r1]

    ldr r1, =0x00007FFC; str r1, [r1]; ldr r1, =0x20007FFC; str r1, [r1]

    ldr r1, =0x11020000; ldr r1, [r1]

    ldr r1, =0x1101FFFC; str r1, [r1]

    ldr r1, =0x01010000; strb r1, [r1]

    ldr r1, =0x10008000; ldr r1, [r1]

    ldr r1, =0x11010000; str r1, [r1]; ldr r1, =0xE000ED08; ldr r2, =0x20000000; str r2, [r1]; udf #0

=== floating point is off at the start | corstone-300 | reset-state

    enable_floating_point; vmov s0, r1; vmov r2, s0; vmrs r1, fpscr

    enable_floating_point; .arch_extension mve; vadd.i32 q0, q0, q0; vldrw.u32 q0, [r1]

    vmov s0, r1

    ldr r1, =0x31000000; ldr r2, [r1]; bic r2, #0x33; str r2, [r1]; ldr r1, =0xE000ED88; ldr r2, =0xF00000
    str r2, [r1]; dsb; isb; vmov s0, r1

    ldr r1, =0xE001E300; ldr r2, [r1]; bic r2, #0x33; str r2, [r1]; ldr r1, =0x31000000; ldr r2, =0xF00000
    str r2, [r1]; dsb; isb; vmov s0, r1

    .arch_extension mve; vadd.i32 q0, q0, q0

    .arch_extension mve; vldrb.u8 q0, [r1]

    .arch_extension mve; vmov q0[2], q0[0], r1, r2

    .arch_extension mve; vctp.32 r1

    vmrs r1, fpscr

    vpush {s0}
