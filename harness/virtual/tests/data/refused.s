@ Instructions that are refused.
ldm r1, {r3, r4}
ldmia r1!, {r3, r4}
stm r1!, {r3, r4}
push {r3}
pop {r3, r4}
ldrex r3, [r1]
strex r3, r4, [r1]
lda r3, [r1]
stl r3, [r1]
ldrt r3, [r1, #4]
vldr s0, [r1]
vstr d0, [r1]
vldrw.u32 q0, [r1]
vstrw.32 q0, [r1]
ldr pc, [r1]
ldr r3, [pc, #8]
adds r3, r1, r2
tbb [r1, r2]
