@ Loads and stores that are carried out in place of the CPU, one test each.
@ 16-bit encodings
ldr r3, [r1]
ldr r3, [r1, #8]
ldr r3, [r1, r2]
ldr r3, [sp, #8]
str r3, [r1, #124]
str r3, [sp, #12]
str r3, [r1, r2]
str r2, [r1, r2]
ldrb r3, [r1, #3]
ldrb r3, [r1, r2]
ldrh r3, [r1, #6]
ldrh r3, [r1, r2]
ldrsb r3, [r1, r2]
ldrsh r3, [r1, r2]
strb r3, [r1, #31]
strb r3, [r1, r2]
strh r3, [r1, #62]
strh r3, [r1, r2]
ldr r1, [r1]
@ 32-bit encodings
ldr.w r9, [r8, #0x104]
ldr.w lr, [ip, #4]
ldr.w r3, [r1, #-8]
ldr.w r3, [r1, r2, lsl #3]
ldr.w r10, [sp, r2, lsl #1]
ldrb.w r11, [r8, #0x81]
ldrb.w r3, [r1, #-1]
ldrh.w r3, [r1, #0x82]
ldrsb.w r3, [r1, #5]
ldrsb.w r3, [r1, #-3]
ldrsh.w r3, [r1, #6]
ldrsh.w r3, [r1, r2, lsl #1]
str.w r9, [r8, #0x104]
str.w r3, [r1, #-8]
str.w r3, [r1, r2, lsl #2]
strb.w r3, [r1, #0x101]
strh.w r3, [r1, #-2]
@ writeback
ldr r3, [r1], #4
ldr r3, [r1], #-4
ldr r3, [r1, #12]!
ldr r3, [r1, #-12]!
ldrb r3, [r1], #1
ldrsb r3, [r1, #1]!
ldrh r3, [r1, #2]!
ldrsh r3, [r1], #-2
str r3, [r1], #4
str r3, [r1, #-16]!
str r3, [sp, #-4]!
ldr r3, [sp], #4
strb r3, [r1], #-1
strh r3, [r1, #2]!
@ doubles
ldrd r3, r4, [r1]
ldrd r3, r4, [r1, #8]
ldrd r3, r4, [r1, #-8]
ldrd r3, r9, [r1], #8
ldrd r3, r4, [r1, #-16]!
ldrd r1, r4, [r1, #4]
strd r3, r4, [r1, #8]
strd r9, lr, [r8], #-8
strd r3, r4, [sp, #16]!
ldrd r5, r6, [sp, #1020]
