//! The parameters of an E-Trace encoder, in words.

use backsight_flow::etrace::Handlers;
use backsight_riscv::encap::Framing;
use backsight_riscv::etrace::{Dialect, ImplicitReturn, Options, Params, SupportLayout};

use super::Configuration;

/// What a decoder must know, in words.
pub(super) fn words(configuration: &Configuration) -> String {
    let Configuration { params, options: on, handlers: at, framing: frames } = configuration;
    let parts = [fields(params), tables(params), options(on), handlers(at)];
    let parts: Vec<_> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    format!("E-Trace in {}; {}", framing(*frames), parts.join("; "))
}

fn framing(framing: Framing) -> String {
    match framing {
        Framing::Reference { hart_bits: 0 } => "frames of one header byte".to_owned(),
        Framing::Reference { hart_bits } => {
            format!("frames of one header byte and {hart_bits} bits of hart number")
        }
        Framing::Standard(widths) => format!(
            "the standard encapsulation ({} bits of source, {} bits of type, {} bytes of time)",
            widths.source_bits, widths.type_bits, widths.time_bytes
        ),
        Framing::Pulp => "beats of 40 bytes".to_owned(),
        Framing::Esp32 => "frames with a packet index".to_owned(),
    }
}

fn fields(params: &Params) -> String {
    let optional = |name: &str, bits: u8| match bits {
        0 => format!("no {name}"),
        bits => format!("{name} of {bits} bits"),
    };
    let cut = match params.iaddress_lsb {
        0 => String::new(),
        1 => " without the lowest".to_owned(),
        bits => format!(" without the lowest {bits}"),
    };
    let mut words = vec![
        format!("addresses of {} bits{cut}", params.iaddress_width),
        optional("context", params.context_bits()),
        optional("time", params.time_bits()),
        format!("cause of {} bits", params.ecause_width),
        format!("privilege of {} bits", params.privilege_width),
        format!("itype of {} bits", params.itype_width),
    ];
    if params.dialect == Dialect::Cva6 {
        words.push("only addresses compressed (the dialect of the encoder for CVA6)".to_owned());
    }
    let layout = match params.layout {
        SupportLayout::Reference => "of the reference model",
        SupportLayout::Cva6 => "of the encoder for CVA6",
        SupportLayout::Standard => "of the draft standard",
    };
    words.push(format!("support packets {layout}"));
    words.join(", ")
}

fn tables(params: &Params) -> String {
    let table = |name: &str, size: u8| match size {
        0 => format!("no {name}"),
        size => format!("{name} of {}", 1u32 << size.min(31)),
    };
    let mut words = vec![
        table("return stack", params.return_stack_size),
        table("call counter", params.call_counter_size),
        table("branch predictor", params.bpred_size),
        table("jump target cache", params.cache_size),
    ];
    if params.return_stack_size > 0 || params.call_counter_size > 0 {
        words.push(match params.implicit_return {
            ImplicitReturn::Depth => {
                "implicit returns told by their depth (irdepth), which is not reliable".to_owned()
            }
            ImplicitReturn::Returns => "implicit returns counted (irets)".to_owned(),
        });
    }
    words.join(", ")
}

fn options(options: &Options) -> String {
    let on: Vec<&str> = [
        ("implicit return", options.implicit_return),
        ("implicit exception", options.implicit_exception),
        ("full address", options.full_address),
        ("jump target cache", options.jump_target_cache),
        ("branch prediction", options.branch_prediction),
        ("sequentially inferred jumps", options.sijump),
        ("no periodic resynchronisation", options.resync_disabled),
    ]
    .into_iter()
    .filter_map(|(name, on)| on.then_some(name))
    .collect();
    if on.is_empty() {
        "no option on until the trace says so".to_owned()
    } else {
        format!("on from the start: {}", on.join(", "))
    }
}

fn handlers(handlers: &Handlers) -> String {
    let mut words = Vec::new();
    if let Some(base) = handlers.base {
        let vectored = if handlers.vectored { ", vectored" } else { "" };
        words.push(format!("trap handlers at {base:#x}{vectored}"));
    }
    if !handlers.single.is_empty() {
        words.push(format!("{} handlers of single causes", handlers.single.len()));
    }
    words.join(", ")
}
