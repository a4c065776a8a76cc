import triton
import triton.language as tl

arguments = {"x": "*i32", "bytes": "*u8", "out": "*i32", "shifted": "*u8"}
constants = {"BLOCK": 512}


@triton.jit
def inline_assembly(x, bytes, out, shifted, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    values = tl.load(x + at)
    reversed, found = tl.inline_asm_elementwise(
        asm="""
        {
            .reg .b32 scratch;
            brev.b32 scratch, $2;
            lop3.b32 $0, scratch, $3, 0xff00ff00, 0x96;
            bfind.u32 $1, $2;
        }
        """,
        constraints="=&r,=r,r,r", args=[values, at], dtype=(tl.int32, tl.int32), is_pure=True, pack=1)
    tl.store(out + at, reversed)
    tl.store(out + BLOCK + at, found)
    small = tl.load(bytes + at)
    # Four bytes of a register at a time.
    tl.store(shifted + at, tl.inline_asm_elementwise(
        """
        {
            .reg .b32 half, zero;
            shr.u32 half, $1, 1;
            and.b32 half, half, 0x7f7f7f7f;
            mov.b32 zero, 0;
            vabsdiff4.u32.u32.u32 $0, half, $1, zero;
        }
        """,
        "=r,r", [small], dtype=tl.uint8, is_pure=True, pack=4))
