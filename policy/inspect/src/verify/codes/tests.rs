use iced_x86::{CpuidFeature, EncodingKind, FlowControl};

use super::*;

/// What the disassembler says of every listed instruction agrees with its class: nothing privileged, nothing that saves or
/// restores a processor's state, no stack and no branch where the class knows of none.
#[test]
fn each_listed_instruction_is_what_its_class_says() {
    let mut listed = 0;
    for code in Code::values() {
        let Some(class) = class_of(code) else { continue };
        listed += 1;
        assert!(!code.is_privileged(), "{code:?}");
        assert!(!code.is_save_restore_instruction(), "{code:?}");
        assert!(matches!(code.encoding(), EncodingKind::Legacy | EncodingKind::VEX), "{code:?}");
        let flow = code.flow_control();
        let fits = match class {
            Class::Branch => {
                matches!(
                    flow,
                    FlowControl::UnconditionalBranch | FlowControl::ConditionalBranch | FlowControl::Call
                )
            }
            Class::Indirect => matches!(flow, FlowControl::IndirectBranch | FlowControl::IndirectCall),
            Class::Return => flow == FlowControl::Return,
            Class::Padding => matches!(flow, FlowControl::Next | FlowControl::Interrupt),
            _ => matches!(flow, FlowControl::Next | FlowControl::Exception),
        };
        assert!(fits, "{code:?}: {flow:?} in {class:?}");
        let moves_stack = code.is_stack_instruction();
        let may_move = matches!(class, Class::Stack | Class::Branch | Class::Indirect | Class::Return);
        assert!(!moves_stack || may_move, "{code:?} moves the stack pointer");
    }
    assert_eq!(listed, GROUPS.iter().map(|(_, codes)| codes.len()).sum::<usize>());
}

/// Families that are left out on purpose, whatever their members are called.
#[test]
fn families_that_are_left_out_have_no_member() {
    let left_out = [
        CpuidFeature::FPU,
        CpuidFeature::MMX,
        CpuidFeature::TSC,
        CpuidFeature::RDTSCP,
        CpuidFeature::RDRAND,
        CpuidFeature::RDSEED,
        CpuidFeature::RDPID,
        CpuidFeature::FSGSBASE,
        CpuidFeature::PKU,
        CpuidFeature::RTM,
        CpuidFeature::CET_IBT,
        CpuidFeature::CET_SS,
        CpuidFeature::MONITOR,
        CpuidFeature::FMA4,
        CpuidFeature::XOP,
        CpuidFeature::AVX512F,
    ];
    for code in Code::values().filter(|code| class_of(*code).is_some()) {
        for feature in code.cpuid_features() {
            assert!(!left_out.contains(feature), "{code:?} needs {feature:?}");
        }
    }
}
