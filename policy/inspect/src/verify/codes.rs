//! The instructions that verified code may consist of. What is not listed is refused, so a new one
//! is a decision: its operands must say everything that it reads, writes and goes to, or the class
//! must have a rule for what they leave out.
//!
//! The list holds what rustc makes for x86-64 of std and of the crates that ship, and the rest of
//! each of those families. Left out on purpose are the x87 unit and MMX (their state is the
//! thread's), everything that reads clocks or makes random numbers, gathers and masked stores, and
//! `std`, `popf`, `enter`, `leave`, far and 16-bit branches and all that is privileged.

use iced_x86::Code;

/// What the rules say about an instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    /// Its operands say everything.
    Plain,
    /// The same, and it may be repeated.
    String,
    /// Its operands say everything if none is in memory.
    RegisterOnly,
    /// Its memory operand is an address that is not used.
    Address,
    /// Its operands are not used.
    Padding,
    /// `push` and `pop`.
    Stack,
    /// A direct branch or call.
    Branch,
    /// An indirect branch or call.
    Indirect,
    /// A return.
    Return,
}

/// The class of an instruction; none if it is not on the list.
pub(super) fn class_of(code: Code) -> Option<Class> {
    CLASSES[code as usize]
}

static CLASSES: [Option<Class>; CODES] = {
    let mut classes = [None; CODES];
    let mut group = 0;
    while group < GROUPS.len() {
        let (class, codes) = GROUPS[group];
        let mut at = 0;
        while at < codes.len() {
            assert!(classes[codes[at] as usize].is_none(), "a code is listed twice");
            classes[codes[at] as usize] = Some(class);
            at += 1;
        }
        group += 1;
    }
    classes
};

/// As many as the disassembler knows.
const CODES: usize = 4_936;

const GROUPS: &[(Class, &[Code])] = &[
    (Class::Plain, ARITHMETIC),
    (Class::Plain, MOVES),
    (Class::Plain, SHIFTS),
    (Class::Plain, BITS),
    (Class::RegisterOnly, BIT_STRINGS),
    (Class::Plain, FLAGS),
    (Class::Plain, ATOMICS),
    (Class::Plain, FENCES),
    (Class::Plain, FEATURES),
    (Class::Plain, SSE),
    (Class::Plain, DETECTED),
    (Class::Plain, AVX),
    (Class::Plain, FMA),
    (Class::Address, ADDRESSES),
    (Class::Padding, PADDING),
    (Class::String, STRINGS),
    (Class::Stack, STACK),
    (Class::Branch, BRANCHES),
    (Class::Indirect, INDIRECT),
    (Class::Return, RETURNS),
];

/// Integer arithmetic: writes its first operand and flags; a division may trap, which ends the call.
#[rustfmt::skip]
const ARITHMETIC: &[Code] = {
    use Code::*;
    &[
        Add_rm8_r8, Add_rm16_r16, Add_rm32_r32, Add_rm64_r64, Add_r8_rm8, Add_r16_rm16, Add_r32_rm32, Add_r64_rm64,
        Add_AL_imm8, Add_AX_imm16, Add_EAX_imm32, Add_RAX_imm32, Or_rm8_r8, Or_rm16_r16, Or_rm32_r32, Or_rm64_r64,
        Or_r8_rm8, Or_r16_rm16, Or_r32_rm32, Or_r64_rm64, Or_AL_imm8, Or_AX_imm16, Or_EAX_imm32, Or_RAX_imm32,
        Adc_rm8_r8, Adc_rm16_r16, Adc_rm32_r32, Adc_rm64_r64, Adc_r8_rm8, Adc_r16_rm16, Adc_r32_rm32, Adc_r64_rm64,
        Adc_AL_imm8, Adc_AX_imm16, Adc_EAX_imm32, Adc_RAX_imm32, Sbb_rm8_r8, Sbb_rm16_r16, Sbb_rm32_r32, Sbb_rm64_r64,
        Sbb_r8_rm8, Sbb_r16_rm16, Sbb_r32_rm32, Sbb_r64_rm64, Sbb_AL_imm8, Sbb_AX_imm16, Sbb_EAX_imm32, Sbb_RAX_imm32,
        And_rm8_r8, And_rm16_r16, And_rm32_r32, And_rm64_r64, And_r8_rm8, And_r16_rm16, And_r32_rm32, And_r64_rm64,
        And_AL_imm8, And_AX_imm16, And_EAX_imm32, And_RAX_imm32, Sub_rm8_r8, Sub_rm16_r16, Sub_rm32_r32, Sub_rm64_r64,
        Sub_r8_rm8, Sub_r16_rm16, Sub_r32_rm32, Sub_r64_rm64, Sub_AL_imm8, Sub_AX_imm16, Sub_EAX_imm32, Sub_RAX_imm32,
        Xor_rm8_r8, Xor_rm16_r16, Xor_rm32_r32, Xor_rm64_r64, Xor_r8_rm8, Xor_r16_rm16, Xor_r32_rm32, Xor_r64_rm64,
        Xor_AL_imm8, Xor_AX_imm16, Xor_EAX_imm32, Xor_RAX_imm32, Cmp_rm8_r8, Cmp_rm16_r16, Cmp_rm32_r32, Cmp_rm64_r64,
        Cmp_r8_rm8, Cmp_r16_rm16, Cmp_r32_rm32, Cmp_r64_rm64, Cmp_AL_imm8, Cmp_AX_imm16, Cmp_EAX_imm32, Cmp_RAX_imm32,
        Imul_r16_rm16_imm16, Imul_r32_rm32_imm32, Imul_r64_rm64_imm32, Imul_r16_rm16_imm8, Imul_r32_rm32_imm8,
        Imul_r64_rm64_imm8, Add_rm8_imm8, Or_rm8_imm8, Adc_rm8_imm8, Sbb_rm8_imm8, And_rm8_imm8, Sub_rm8_imm8,
        Xor_rm8_imm8, Cmp_rm8_imm8, Add_rm16_imm16, Add_rm32_imm32, Add_rm64_imm32, Or_rm16_imm16, Or_rm32_imm32,
        Or_rm64_imm32, Adc_rm16_imm16, Adc_rm32_imm32, Adc_rm64_imm32, Sbb_rm16_imm16, Sbb_rm32_imm32, Sbb_rm64_imm32,
        And_rm16_imm16, And_rm32_imm32, And_rm64_imm32, Sub_rm16_imm16, Sub_rm32_imm32, Sub_rm64_imm32, Xor_rm16_imm16,
        Xor_rm32_imm32, Xor_rm64_imm32, Cmp_rm16_imm16, Cmp_rm32_imm32, Cmp_rm64_imm32, Add_rm16_imm8, Add_rm32_imm8,
        Add_rm64_imm8, Or_rm16_imm8, Or_rm32_imm8, Or_rm64_imm8, Adc_rm16_imm8, Adc_rm32_imm8, Adc_rm64_imm8,
        Sbb_rm16_imm8, Sbb_rm32_imm8, Sbb_rm64_imm8, And_rm16_imm8, And_rm32_imm8, And_rm64_imm8, Sub_rm16_imm8,
        Sub_rm32_imm8, Sub_rm64_imm8, Xor_rm16_imm8, Xor_rm32_imm8, Xor_rm64_imm8, Cmp_rm16_imm8, Cmp_rm32_imm8,
        Cmp_rm64_imm8, Test_rm8_r8, Test_rm16_r16, Test_rm32_r32, Test_rm64_r64, Test_AL_imm8, Test_AX_imm16,
        Test_EAX_imm32, Test_RAX_imm32, Test_rm8_imm8, Test_rm8_imm8_F6r1, Not_rm8, Neg_rm8, Mul_rm8, Imul_rm8, Div_rm8,
        Idiv_rm8, Test_rm16_imm16, Test_rm32_imm32, Test_rm64_imm32, Test_rm16_imm16_F7r1, Test_rm32_imm32_F7r1,
        Test_rm64_imm32_F7r1, Not_rm16, Not_rm32, Not_rm64, Neg_rm16, Neg_rm32, Neg_rm64, Mul_rm16, Mul_rm32, Mul_rm64,
        Imul_rm16, Imul_rm32, Imul_rm64, Div_rm16, Div_rm32, Div_rm64, Idiv_rm16, Idiv_rm32, Idiv_rm64, Inc_rm8,
        Dec_rm8, Inc_rm16, Inc_rm32, Inc_rm64, Dec_rm16, Dec_rm32, Dec_rm64, Imul_r16_rm16, Imul_r32_rm32,
        Imul_r64_rm64,
    ]
};

/// Moves, extensions and conditional moves between general registers and memory.
#[rustfmt::skip]
const MOVES: &[Code] = {
    use Code::*;
    &[
        Movsxd_r64_rm32, Mov_rm8_r8, Mov_rm16_r16, Mov_rm32_r32, Mov_rm64_r64, Mov_r8_rm8, Mov_r16_rm16, Mov_r32_rm32,
        Mov_r64_rm64, Cbw, Cwde, Cdqe, Cwd, Cdq, Cqo, Mov_r8_imm8, Mov_r16_imm16, Mov_r32_imm32, Mov_r64_imm64,
        Mov_rm8_imm8, Mov_rm16_imm16, Mov_rm32_imm32, Mov_rm64_imm32, Cmovo_r16_rm16, Cmovo_r32_rm32, Cmovo_r64_rm64,
        Cmovno_r16_rm16, Cmovno_r32_rm32, Cmovno_r64_rm64, Cmovb_r16_rm16, Cmovb_r32_rm32, Cmovb_r64_rm64,
        Cmovae_r16_rm16, Cmovae_r32_rm32, Cmovae_r64_rm64, Cmove_r16_rm16, Cmove_r32_rm32, Cmove_r64_rm64,
        Cmovne_r16_rm16, Cmovne_r32_rm32, Cmovne_r64_rm64, Cmovbe_r16_rm16, Cmovbe_r32_rm32, Cmovbe_r64_rm64,
        Cmova_r16_rm16, Cmova_r32_rm32, Cmova_r64_rm64, Cmovs_r16_rm16, Cmovs_r32_rm32, Cmovs_r64_rm64, Cmovns_r16_rm16,
        Cmovns_r32_rm32, Cmovns_r64_rm64, Cmovp_r16_rm16, Cmovp_r32_rm32, Cmovp_r64_rm64, Cmovnp_r16_rm16,
        Cmovnp_r32_rm32, Cmovnp_r64_rm64, Cmovl_r16_rm16, Cmovl_r32_rm32, Cmovl_r64_rm64, Cmovge_r16_rm16,
        Cmovge_r32_rm32, Cmovge_r64_rm64, Cmovle_r16_rm16, Cmovle_r32_rm32, Cmovle_r64_rm64, Cmovg_r16_rm16,
        Cmovg_r32_rm32, Cmovg_r64_rm64, Seto_rm8, Setno_rm8, Setb_rm8, Setae_rm8, Sete_rm8, Setne_rm8, Setbe_rm8,
        Seta_rm8, Sets_rm8, Setns_rm8, Setp_rm8, Setnp_rm8, Setl_rm8, Setge_rm8, Setle_rm8, Setg_rm8, Movzx_r16_rm8,
        Movzx_r32_rm8, Movzx_r64_rm8, Movzx_r16_rm16, Movzx_r32_rm16, Movzx_r64_rm16, Movsx_r16_rm8, Movsx_r32_rm8,
        Movsx_r64_rm8, Movsx_r16_rm16, Movsx_r32_rm16, Movsx_r64_rm16, Bswap_r16, Bswap_r32, Bswap_r64,
    ]
};

/// Shifts and rotations of the first operand.
#[rustfmt::skip]
const SHIFTS: &[Code] = {
    use Code::*;
    &[
        Rol_rm8_imm8, Ror_rm8_imm8, Rcl_rm8_imm8, Rcr_rm8_imm8, Shl_rm8_imm8, Shr_rm8_imm8, Sar_rm8_imm8, Rol_rm16_imm8,
        Rol_rm32_imm8, Rol_rm64_imm8, Ror_rm16_imm8, Ror_rm32_imm8, Ror_rm64_imm8, Rcl_rm16_imm8, Rcl_rm32_imm8,
        Rcl_rm64_imm8, Rcr_rm16_imm8, Rcr_rm32_imm8, Rcr_rm64_imm8, Shl_rm16_imm8, Shl_rm32_imm8, Shl_rm64_imm8,
        Shr_rm16_imm8, Shr_rm32_imm8, Shr_rm64_imm8, Sar_rm16_imm8, Sar_rm32_imm8, Sar_rm64_imm8, Rol_rm8_1, Ror_rm8_1,
        Rcl_rm8_1, Rcr_rm8_1, Shl_rm8_1, Shr_rm8_1, Sar_rm8_1, Rol_rm16_1, Rol_rm32_1, Rol_rm64_1, Ror_rm16_1,
        Ror_rm32_1, Ror_rm64_1, Rcl_rm16_1, Rcl_rm32_1, Rcl_rm64_1, Rcr_rm16_1, Rcr_rm32_1, Rcr_rm64_1, Shl_rm16_1,
        Shl_rm32_1, Shl_rm64_1, Shr_rm16_1, Shr_rm32_1, Shr_rm64_1, Sar_rm16_1, Sar_rm32_1, Sar_rm64_1, Rol_rm8_CL,
        Ror_rm8_CL, Rcl_rm8_CL, Rcr_rm8_CL, Shl_rm8_CL, Shr_rm8_CL, Sar_rm8_CL, Rol_rm16_CL, Rol_rm32_CL, Rol_rm64_CL,
        Ror_rm16_CL, Ror_rm32_CL, Ror_rm64_CL, Rcl_rm16_CL, Rcl_rm32_CL, Rcl_rm64_CL, Rcr_rm16_CL, Rcr_rm32_CL,
        Rcr_rm64_CL, Shl_rm16_CL, Shl_rm32_CL, Shl_rm64_CL, Shr_rm16_CL, Shr_rm32_CL, Shr_rm64_CL, Sar_rm16_CL,
        Sar_rm32_CL, Sar_rm64_CL, Shld_rm16_r16_imm8, Shld_rm32_r32_imm8, Shld_rm64_r64_imm8, Shld_rm16_r16_CL,
        Shld_rm32_r32_CL, Shld_rm64_r64_CL, Shrd_rm16_r16_imm8, Shrd_rm32_r32_imm8, Shrd_rm64_r64_imm8,
        Shrd_rm16_r16_CL, Shrd_rm32_r32_CL, Shrd_rm64_r64_CL,
    ]
};

/// Bit scans, counts, and bit tests whose bit lies in the operand itself.
#[rustfmt::skip]
const BITS: &[Code] = {
    use Code::*;
    &[
        Popcnt_r16_rm16, Popcnt_r32_rm32, Popcnt_r64_rm64, Bt_rm16_imm8, Bt_rm32_imm8, Bt_rm64_imm8, Bts_rm16_imm8,
        Bts_rm32_imm8, Bts_rm64_imm8, Btr_rm16_imm8, Btr_rm32_imm8, Btr_rm64_imm8, Btc_rm16_imm8, Btc_rm32_imm8,
        Btc_rm64_imm8, Bsf_r16_rm16, Bsf_r32_rm32, Bsf_r64_rm64, Tzcnt_r16_rm16, Tzcnt_r32_rm32, Tzcnt_r64_rm64,
        Bsr_r16_rm16, Bsr_r32_rm32, Bsr_r64_rm64, Lzcnt_r16_rm16, Lzcnt_r32_rm32, Lzcnt_r64_rm64,
    ]
};

/// Bit tests by a register: on memory they reach far beyond the operand, so only on registers.
#[rustfmt::skip]
const BIT_STRINGS: &[Code] = {
    use Code::*;
    &[
        Bt_rm16_r16, Bt_rm32_r32, Bt_rm64_r64, Bts_rm16_r16, Bts_rm32_r32, Bts_rm64_r64, Btr_rm16_r16, Btr_rm32_r32,
        Btr_rm64_r64, Btc_rm16_r16, Btc_rm32_r32, Btc_rm64_r64,
    ]
};

/// Single flags that nothing of the host reads; the direction flag can be cleared, never set.
#[rustfmt::skip]
const FLAGS: &[Code] = {
    use Code::*;
    &[
        Sahf, Lahf, Cmc, Clc, Stc, Cld,
    ]
};

/// Exchanges and their locked forms.
#[rustfmt::skip]
const ATOMICS: &[Code] = {
    use Code::*;
    &[
        Xchg_rm8_r8, Xchg_rm16_r16, Xchg_rm32_r32, Xchg_rm64_r64, Xchg_r16_AX, Xchg_r32_EAX, Xchg_r64_RAX,
        Cmpxchg_rm8_r8, Cmpxchg_rm16_r16, Cmpxchg_rm32_r32, Cmpxchg_rm64_r64, Xadd_rm8_r8, Xadd_rm16_r16, Xadd_rm32_r32,
        Xadd_rm64_r64, Cmpxchg8b_m64, Cmpxchg16b_m128,
    ]
};

/// Fences, a hint to wait, and the trap that the compiler puts where nothing goes on.
#[rustfmt::skip]
const FENCES: &[Code] = {
    use Code::*;
    &[
        Pause, Ud2, Lfence, Mfence, Sfence,
    ]
};

/// What the processor can do, which std asks before it uses wide instructions.
#[rustfmt::skip]
const FEATURES: &[Code] = {
    use Code::*;
    &[
        Xgetbv, Cpuid,
    ]
};

/// SSE and SSE2: the baseline of x86-64. MXCSR cannot be written.
#[rustfmt::skip]
const SSE: &[Code] = {
    use Code::*;
    &[
        Movups_xmm_xmmm128, Movupd_xmm_xmmm128, Movss_xmm_xmmm32, Movups_xmmm128_xmm, Movupd_xmmm128_xmm,
        Movss_xmmm32_xmm, Movhlps_xmm_xmm, Movlps_xmm_m64, Movlpd_xmm_m64, Movlps_m64_xmm, Movlpd_m64_xmm,
        Unpcklps_xmm_xmmm128, Unpcklpd_xmm_xmmm128, Unpckhps_xmm_xmmm128, Unpckhpd_xmm_xmmm128, Movlhps_xmm_xmm,
        Movhps_xmm_m64, Movhpd_xmm_m64, Movhps_m64_xmm, Movhpd_m64_xmm, Movaps_xmm_xmmm128, Movapd_xmm_xmmm128,
        Movaps_xmmm128_xmm, Movapd_xmmm128_xmm, Cvtsi2ss_xmm_rm32, Cvtsi2ss_xmm_rm64, Cvtsi2sd_xmm_rm32,
        Cvtsi2sd_xmm_rm64, Movntps_m128_xmm, Movntpd_m128_xmm, Cvttss2si_r32_xmmm32, Cvttss2si_r64_xmmm32,
        Cvttsd2si_r32_xmmm64, Cvttsd2si_r64_xmmm64, Cvtss2si_r32_xmmm32, Cvtss2si_r64_xmmm32, Cvtsd2si_r32_xmmm64,
        Cvtsd2si_r64_xmmm64, Ucomiss_xmm_xmmm32, Ucomisd_xmm_xmmm64, Comiss_xmm_xmmm32, Comisd_xmm_xmmm64,
        Movmskps_r32_xmm, Movmskps_r64_xmm, Movmskpd_r32_xmm, Movmskpd_r64_xmm, Sqrtps_xmm_xmmm128, Sqrtpd_xmm_xmmm128,
        Sqrtss_xmm_xmmm32, Sqrtsd_xmm_xmmm64, Rsqrtps_xmm_xmmm128, Rsqrtss_xmm_xmmm32, Rcpps_xmm_xmmm128,
        Rcpss_xmm_xmmm32, Andps_xmm_xmmm128, Andpd_xmm_xmmm128, Andnps_xmm_xmmm128, Andnpd_xmm_xmmm128,
        Orps_xmm_xmmm128, Orpd_xmm_xmmm128, Xorps_xmm_xmmm128, Xorpd_xmm_xmmm128, Addps_xmm_xmmm128, Addpd_xmm_xmmm128,
        Addss_xmm_xmmm32, Addsd_xmm_xmmm64, Mulps_xmm_xmmm128, Mulpd_xmm_xmmm128, Mulss_xmm_xmmm32, Mulsd_xmm_xmmm64,
        Cvtps2pd_xmm_xmmm64, Cvtpd2ps_xmm_xmmm128, Cvtss2sd_xmm_xmmm32, Cvtsd2ss_xmm_xmmm64, Cvtdq2ps_xmm_xmmm128,
        Cvtps2dq_xmm_xmmm128, Cvttps2dq_xmm_xmmm128, Subps_xmm_xmmm128, Subpd_xmm_xmmm128, Subss_xmm_xmmm32,
        Subsd_xmm_xmmm64, Minps_xmm_xmmm128, Minpd_xmm_xmmm128, Minss_xmm_xmmm32, Minsd_xmm_xmmm64, Divps_xmm_xmmm128,
        Divpd_xmm_xmmm128, Divss_xmm_xmmm32, Divsd_xmm_xmmm64, Maxps_xmm_xmmm128, Maxpd_xmm_xmmm128, Maxss_xmm_xmmm32,
        Maxsd_xmm_xmmm64, Punpcklbw_xmm_xmmm128, Punpcklwd_xmm_xmmm128, Punpckldq_xmm_xmmm128, Packsswb_xmm_xmmm128,
        Pcmpgtb_xmm_xmmm128, Pcmpgtw_xmm_xmmm128, Pcmpgtd_xmm_xmmm128, Packuswb_xmm_xmmm128, Punpckhbw_xmm_xmmm128,
        Punpckhwd_xmm_xmmm128, Punpckhdq_xmm_xmmm128, Packssdw_xmm_xmmm128, Punpcklqdq_xmm_xmmm128,
        Punpckhqdq_xmm_xmmm128, Movd_xmm_rm32, Movq_xmm_rm64, Movdqa_xmm_xmmm128, Movdqu_xmm_xmmm128,
        Pshufd_xmm_xmmm128_imm8, Pshufhw_xmm_xmmm128_imm8, Pshuflw_xmm_xmmm128_imm8, Psrlw_xmm_imm8, Psraw_xmm_imm8,
        Psllw_xmm_imm8, Psrld_xmm_imm8, Psrad_xmm_imm8, Pslld_xmm_imm8, Psrlq_xmm_imm8, Psrldq_xmm_imm8, Psllq_xmm_imm8,
        Pslldq_xmm_imm8, Pcmpeqb_xmm_xmmm128, Pcmpeqw_xmm_xmmm128, Pcmpeqd_xmm_xmmm128, Movd_rm32_xmm, Movq_rm64_xmm,
        Movq_xmm_xmmm64, Movdqa_xmmm128_xmm, Movdqu_xmmm128_xmm, Cmpps_xmm_xmmm128_imm8, Cmppd_xmm_xmmm128_imm8,
        Cmpss_xmm_xmmm32_imm8, Movnti_m32_r32, Movnti_m64_r64, Pinsrw_xmm_r32m16_imm8, Pinsrw_xmm_r64m16_imm8,
        Pextrw_r32_xmm_imm8, Pextrw_r64_xmm_imm8, Shufps_xmm_xmmm128_imm8, Shufpd_xmm_xmmm128_imm8, Psrlw_xmm_xmmm128,
        Psrld_xmm_xmmm128, Psrlq_xmm_xmmm128, Paddq_xmm_xmmm128, Pmullw_xmm_xmmm128, Movq_xmmm64_xmm, Pmovmskb_r32_xmm,
        Pmovmskb_r64_xmm, Psubusb_xmm_xmmm128, Psubusw_xmm_xmmm128, Pminub_xmm_xmmm128, Pand_xmm_xmmm128,
        Paddusb_xmm_xmmm128, Paddusw_xmm_xmmm128, Pmaxub_xmm_xmmm128, Pandn_xmm_xmmm128, Pavgb_xmm_xmmm128,
        Psraw_xmm_xmmm128, Psrad_xmm_xmmm128, Pavgw_xmm_xmmm128, Pmulhuw_xmm_xmmm128, Pmulhw_xmm_xmmm128,
        Cvttpd2dq_xmm_xmmm128, Cvtdq2pd_xmm_xmmm64, Cvtpd2dq_xmm_xmmm128, Movntdq_m128_xmm, Psubsb_xmm_xmmm128,
        Psubsw_xmm_xmmm128, Pminsw_xmm_xmmm128, Por_xmm_xmmm128, Paddsb_xmm_xmmm128, Paddsw_xmm_xmmm128,
        Pmaxsw_xmm_xmmm128, Pxor_xmm_xmmm128, Psllw_xmm_xmmm128, Pslld_xmm_xmmm128, Psllq_xmm_xmmm128,
        Pmuludq_xmm_xmmm128, Pmaddwd_xmm_xmmm128, Psadbw_xmm_xmmm128, Psubb_xmm_xmmm128, Psubw_xmm_xmmm128,
        Psubd_xmm_xmmm128, Psubq_xmm_xmmm128, Paddb_xmm_xmmm128, Paddw_xmm_xmmm128, Paddd_xmm_xmmm128,
        Pextrw_r32m16_xmm_imm8, Pextrw_r64m16_xmm_imm8, Movsd_xmm_xmmm64, Movsd_xmmm64_xmm, Cmpsd_xmm_xmmm64_imm8,
    ]
};

/// SSSE3, SSE4, SHA and AES, which crates use after they asked for them.
#[rustfmt::skip]
const DETECTED: &[Code] = {
    use Code::*;
    &[
        Pshufb_xmm_xmmm128, Sha1nexte_xmm_xmmm128, Sha1msg1_xmm_xmmm128, Sha1msg2_xmm_xmmm128, Sha256rnds2_xmm_xmmm128,
        Sha256msg1_xmm_xmmm128, Sha256msg2_xmm_xmmm128, Aesimc_xmm_xmmm128, Aesenc_xmm_xmmm128, Aesenclast_xmm_xmmm128,
        Aesdec_xmm_xmmm128, Aesdeclast_xmm_xmmm128, Crc32_r32_rm8, Crc32_r64_rm8, Crc32_r32_rm16, Crc32_r32_rm32,
        Crc32_r64_rm64, Pblendw_xmm_xmmm128_imm8, Palignr_xmm_xmmm128_imm8, Pclmulqdq_xmm_xmmm128_imm8,
        Sha1rnds4_xmm_xmmm128_imm8, Aeskeygenassist_xmm_xmmm128_imm8,
    ]
};

/// AVX and AVX2 as searches and hashes use them; no gathers, no masked stores.
#[rustfmt::skip]
const AVX: &[Code] = {
    use Code::*;
    &[
        VEX_Vmovups_xmm_xmmm128, VEX_Vmovups_ymm_ymmm256, VEX_Vmovups_xmmm128_xmm, VEX_Vmovups_ymmm256_ymm,
        VEX_Vmovaps_xmm_xmmm128, VEX_Vmovaps_ymm_ymmm256, VEX_Vmovaps_xmmm128_xmm, VEX_Vmovaps_ymmm256_ymm,
        VEX_Vxorps_xmm_xmm_xmmm128, VEX_Vxorps_ymm_ymm_ymmm256, VEX_Vpunpcklbw_xmm_xmm_xmmm128,
        VEX_Vpunpcklbw_ymm_ymm_ymmm256, VEX_Vpackuswb_xmm_xmm_xmmm128, VEX_Vpackuswb_ymm_ymm_ymmm256,
        VEX_Vpunpckhbw_xmm_xmm_xmmm128, VEX_Vpunpckhbw_ymm_ymm_ymmm256, VEX_Vpunpckhdq_xmm_xmm_xmmm128,
        VEX_Vpunpckhdq_ymm_ymm_ymmm256, VEX_Vmovd_xmm_rm32, VEX_Vmovq_xmm_rm64, VEX_Vmovdqa_xmm_xmmm128,
        VEX_Vmovdqa_ymm_ymmm256, VEX_Vmovdqu_xmm_xmmm128, VEX_Vmovdqu_ymm_ymmm256, VEX_Vpshufd_xmm_xmmm128_imm8,
        VEX_Vpshufd_ymm_ymmm256_imm8, VEX_Vpsrlw_xmm_xmm_imm8, VEX_Vpsrlw_ymm_ymm_imm8, VEX_Vpsrld_xmm_xmm_imm8,
        VEX_Vpsrld_ymm_ymm_imm8, VEX_Vpslld_xmm_xmm_imm8, VEX_Vpslld_ymm_ymm_imm8, VEX_Vpsrlq_xmm_xmm_imm8,
        VEX_Vpsrlq_ymm_ymm_imm8, VEX_Vpsllq_xmm_xmm_imm8, VEX_Vpsllq_ymm_ymm_imm8, VEX_Vpcmpeqb_xmm_xmm_xmmm128,
        VEX_Vpcmpeqb_ymm_ymm_ymmm256, VEX_Vpcmpeqd_xmm_xmm_xmmm128, VEX_Vpcmpeqd_ymm_ymm_ymmm256, VEX_Vzeroupper,
        VEX_Vmovd_rm32_xmm, VEX_Vmovq_rm64_xmm, VEX_Vmovq_xmm_xmmm64, VEX_Vmovdqa_xmmm128_xmm, VEX_Vmovdqa_ymmm256_ymm,
        VEX_Vmovdqu_xmmm128_xmm, VEX_Vmovdqu_ymmm256_ymm, VEX_Vpsrlw_xmm_xmm_xmmm128, VEX_Vpsrlw_ymm_ymm_xmmm128,
        VEX_Vpsrld_xmm_xmm_xmmm128, VEX_Vpsrld_ymm_ymm_xmmm128, VEX_Vpsrlq_xmm_xmm_xmmm128, VEX_Vpsrlq_ymm_ymm_xmmm128,
        VEX_Vpaddq_xmm_xmm_xmmm128, VEX_Vpaddq_ymm_ymm_ymmm256, VEX_Vmovq_xmmm64_xmm, VEX_Vpmovmskb_r32_xmm,
        VEX_Vpmovmskb_r64_xmm, VEX_Vpmovmskb_r32_ymm, VEX_Vpmovmskb_r64_ymm, VEX_Vpand_xmm_xmm_xmmm128,
        VEX_Vpand_ymm_ymm_ymmm256, VEX_Vpandn_xmm_xmm_xmmm128, VEX_Vpandn_ymm_ymm_ymmm256, VEX_Vpor_xmm_xmm_xmmm128,
        VEX_Vpor_ymm_ymm_ymmm256, VEX_Vpxor_xmm_xmm_xmmm128, VEX_Vpxor_ymm_ymm_ymmm256, VEX_Vpslld_xmm_xmm_xmmm128,
        VEX_Vpslld_ymm_ymm_xmmm128, VEX_Vpsllq_xmm_xmm_xmmm128, VEX_Vpsllq_ymm_ymm_xmmm128, VEX_Vpsadbw_xmm_xmm_xmmm128,
        VEX_Vpsadbw_ymm_ymm_ymmm256, VEX_Vpaddb_xmm_xmm_xmmm128, VEX_Vpaddb_ymm_ymm_ymmm256, VEX_Vpaddd_xmm_xmm_xmmm128,
        VEX_Vpaddd_ymm_ymm_ymmm256, VEX_Vpshufb_xmm_xmm_xmmm128, VEX_Vpshufb_ymm_ymm_ymmm256, VEX_Vptest_xmm_xmmm128,
        VEX_Vptest_ymm_ymmm256, VEX_Vpackusdw_xmm_xmm_xmmm128, VEX_Vpackusdw_ymm_ymm_ymmm256, VEX_Vpmovzxbq_xmm_xmmm16,
        VEX_Vpmovzxbq_ymm_xmmm32, VEX_Vpmovzxdq_xmm_xmmm64, VEX_Vpmovzxdq_ymm_xmmm128, VEX_Vpbroadcastd_xmm_xmmm32,
        VEX_Vpbroadcastd_ymm_xmmm32, VEX_Vpbroadcastq_xmm_xmmm64, VEX_Vpbroadcastq_ymm_xmmm64,
        VEX_Vbroadcasti128_ymm_m128, VEX_Vpbroadcastb_xmm_xmmm8, VEX_Vpbroadcastb_ymm_xmmm8,
        VEX_Vpblendd_xmm_xmm_xmmm128_imm8, VEX_Vpblendd_ymm_ymm_ymmm256_imm8, VEX_Vpalignr_xmm_xmm_xmmm128_imm8,
        VEX_Vpalignr_ymm_ymm_ymmm256_imm8, VEX_Vpextrq_rm64_xmm_imm8, VEX_Vpinsrd_xmm_xmm_rm32_imm8,
        VEX_Vinserti128_ymm_ymm_xmmm128_imm8, VEX_Vextracti128_xmmm128_ymm_imm8, VEX_Vperm2i128_ymm_ymm_ymmm256_imm8,
    ]
};

/// Fused multiplication and addition, which std's arithmetic uses after it asked. Not the form with four operands, whose unused
/// bits no two disassemblers read alike.
#[rustfmt::skip]
const FMA: &[Code] = {
    use Code::*;
    &[
        VEX_Vfmadd213sd_xmm_xmm_xmmm64, VEX_Vfmadd213ss_xmm_xmm_xmmm32,
    ]
};

/// Computes an address and touches nothing.
#[rustfmt::skip]
const ADDRESSES: &[Code] = {
    use Code::*;
    &[
        Lea_r16_m, Lea_r32_m, Lea_r64_m,
    ]
};

/// Does nothing whatever its operand says; `int3` stands where nothing may go on.
#[rustfmt::skip]
const PADDING: &[Code] = {
    use Code::*;
    &[
        Nopw, Nopd, Nopq, Nop_rm16, Nop_rm32, Nop_rm64, Int3,
    ]
};

/// Copies and fills: both addresses are operands, which have to be truncated like any other.
#[rustfmt::skip]
const STRINGS: &[Code] = {
    use Code::*;
    &[
        Movsb_m8_m8, Movsw_m16_m16, Movsd_m32_m32, Movsq_m64_m64, Stosb_m8_AL, Stosw_m16_AX, Stosd_m32_EAX,
        Stosq_m64_RAX,
    ]
};

/// Moves the stack pointer by eight and touches what it passes.
#[rustfmt::skip]
const STACK: &[Code] = {
    use Code::*;
    &[
        Push_r64, Push_rm64, Pushq_imm8, Pushq_imm32, Pop_r64,
    ]
};

/// A target that stands in the instruction.
#[rustfmt::skip]
const BRANCHES: &[Code] = {
    use Code::*;
    &[
        Jmp_rel8_64, Jmp_rel32_64, Call_rel32_64, Jo_rel8_64, Jo_rel32_64, Jno_rel8_64, Jno_rel32_64, Jb_rel8_64,
        Jb_rel32_64, Jae_rel8_64, Jae_rel32_64, Je_rel8_64, Je_rel32_64, Jne_rel8_64, Jne_rel32_64, Jbe_rel8_64,
        Jbe_rel32_64, Ja_rel8_64, Ja_rel32_64, Js_rel8_64, Js_rel32_64, Jns_rel8_64, Jns_rel32_64, Jp_rel8_64,
        Jp_rel32_64, Jnp_rel8_64, Jnp_rel32_64, Jl_rel8_64, Jl_rel32_64, Jge_rel8_64, Jge_rel32_64, Jle_rel8_64,
        Jle_rel32_64, Jg_rel8_64, Jg_rel32_64,
    ]
};

/// A target in a register, which has to be masked just before.
#[rustfmt::skip]
const INDIRECT: &[Code] = {
    use Code::*;
    &[
        Jmp_rm64, Call_rm64,
    ]
};

/// A target on the stack, which has to be masked just before.
#[rustfmt::skip]
const RETURNS: &[Code] = {
    use Code::*;
    &[
        Retnq,
    ]
};

#[cfg(test)]
mod tests;
