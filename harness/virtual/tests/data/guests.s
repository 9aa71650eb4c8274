@ Programs that access devices. A line of === has the name of what follows, and the system; each ends with `finish`.

=== words, bytes, both aliases and doubles | corstone-300

    ldr r4, [r0, #0x28]; send; ldr r1, =0x12345670; str r1, [r0, #0x80]; ldr r2, =0x48102080; ldr r4, [r2]; send
    ldrb r4, [r0, #0x82]; send; ldrh r4, [r0, #0x28]; send; ldr r1, =0x31001000; movs r2, #0
    strd r1, r2, [r0, #0x88]; ldrd r3, r4, [r0, #0x84]; send

=== a command stream outside of RAM | corstone-300

    ldr r2, =0x0FFFFFF0; start_job; ldr r4, [r0, #4]; send

=== an unknown register | corstone-300

    ldr r1, [r0, #0x148]

=== a read-only register | corstone-300

    str r0, [r0, #0x28]

=== a byte of a register | corstone-300

    strb r0, [r0, #0x20]

=== several registers | corstone-300

    ldm r0, {r1, r2}

=== between two registers | corstone-300

    ldr r1, [r0, #2]

=== a vector | corstone-300

    enable_vectors; .arch_extension mve; vldrw.u32 q0, [r0]

=== a load of an unknown register of the UART | corstone-320

    ldr r1, =0x58203000; ldr r2, [r1, #0x24]

=== a store to an unknown register of the UART | corstone-320

    ldr r1, =0x58203000; str r2, [r1, #0x24]
