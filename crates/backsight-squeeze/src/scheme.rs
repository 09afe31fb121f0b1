//! All schemes behind one type: by name, with any parameter changed, compressing and decompressing.

use crate::Damage;
use crate::base::{Base, BaseCompressor, BaseDecompressor};
use crate::block::{Block, Compressor, Decompressor, Path, Records, Share};
use crate::code::Code;
use crate::dmtf::{Dmtf, DmtfCompressor, DmtfDecompressor};
use crate::general::{General, GeneralCompressor, GeneralDecompressor, Program};
use crate::lz::{Lz, LzCompressor, LzDecompressor};
use crate::mix::{Mix, MixCompressor, MixDecompressor};
use crate::sdc::{Sdc, SdcCompressor, SdcDecompressor};
use crate::tmbp::{Tmbp, TmbpCompressor, TmbpDecompressor};

macro_rules! schemes {
    ($($(#[$doc:meta])* $name:ident($build:ty, $compressor:ident, $decompressor:ident),)*) => {
        /// A scheme and its parameters.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Scheme {
            $($(#[$doc])* $name($build),)*
        }

        /// The compressor of any scheme.
        #[derive(Clone, Debug)]
        pub enum AnyCompressor {
            $($(#[$doc])* $name(Box<$compressor>),)*
        }

        /// The decompressor of any scheme.
        #[derive(Clone, Debug)]
        pub enum AnyDecompressor {
            $($(#[$doc])* $name(Box<$decompressor>),)*
        }

        impl Scheme {
            /// Can it be built?
            pub fn check(&self) -> Result<(), &'static str> {
                match self { $(Self::$name(build) => build.check(),)* }
            }

            /// A compressor with empty tables. The scheme must pass its [`check`](Self::check).
            pub fn compressor(&self) -> AnyCompressor {
                match self { $(Self::$name(build) => AnyCompressor::$name(Box::new($compressor::new(*build))),)* }
            }

            /// A decompressor with empty tables. The scheme must pass its [`check`](Self::check).
            pub fn decompressor(&self) -> AnyDecompressor {
                match self { $(Self::$name(build) => AnyDecompressor::$name(Box::new($decompressor::new(*build))),)* }
            }

            /// Bits of an address.
            pub fn address_bits(&self) -> u32 {
                match self { $(Self::$name(build) => build.address_bits,)* }
            }

            /// The same with addresses of so many bits.
            pub fn with_address_bits(mut self, bits: u32) -> Self {
                match &mut self { $(Self::$name(build) => build.address_bits = bits,)* }
                self
            }
        }

        impl Compressor for AnyCompressor {
            #[inline]
            fn push(&mut self, block: &Block, code: &mut Code) {
                match self { $(Self::$name(inner) => inner.push(block, code),)* }
            }

            fn flush(&mut self, code: &mut Code) -> Records {
                match self { $(Self::$name(inner) => inner.flush(code),)* }
            }

            fn waiting(&self) -> u64 {
                match self { $(Self::$name(inner) => inner.waiting(),)* }
            }

            fn shares(&self) -> Vec<Share> {
                match self { $(Self::$name(inner) => inner.shares(),)* }
            }
        }

        impl Decompressor for AnyDecompressor {
            fn unpack(
                &mut self,
                records: &Records,
                code: &mut Code,
                sink: &mut impl FnMut(Path, &mut Code),
            ) -> Result<(), Damage> {
                match self { $(Self::$name(inner) => inner.unpack(records, code, sink),)* }
            }
        }
    };
}

schemes! {
    /// BASE and NEXS.
    Base(Base, BaseCompressor, BaseDecompressor),
    /// bDMTF, hDMTF, eDMTF.
    Dmtf(Dmtf, DmtfCompressor, DmtfDecompressor),
    /// bSDC-LSP, eSDC-LSP, rSDC-LSP.
    Sdc(Sdc, SdcCompressor, SdcDecompressor),
    /// tTMBP, sTMBP, bTMBP.
    Tmbp(Tmbp, TmbpCompressor, TmbpDecompressor),
    /// LZ.
    Lz(Lz, LzCompressor, LzDecompressor),
    /// Mixed contexts.
    Mix(Mix, MixCompressor, MixDecompressor),
    /// gzip, zstd, xz.
    General(General, GeneralCompressor, GeneralDecompressor),
}

/// The schemes by name, with the best parameters of the text.
pub const PRESETS: &[(&str, Scheme)] = &[
    ("base", Scheme::Base(Base::PLAIN)),
    ("nexs", Scheme::Base(Base::NEXUS)),
    ("lz256", Scheme::Lz(Lz::new(256))),
    ("lz1024", Scheme::Lz(Lz::new(1024))),
    ("bdmtf", Scheme::Dmtf(Dmtf::basic(192, 4))),
    ("hdmtf", Scheme::Dmtf(Dmtf::with_register(192, 4))),
    ("edmtf", Scheme::Dmtf(Dmtf::enhanced(192, 4))),
    ("edmtf64", Scheme::Dmtf(Dmtf::enhanced(64, 4))),
    ("bsdc", Scheme::Sdc(Sdc::basic(32, 4))),
    ("esdc", Scheme::Sdc(Sdc::enhanced(32, 4))),
    ("rsdc", Scheme::Sdc(Sdc::reduced(32, 4))),
    ("ttmbp", Scheme::Tmbp(Tmbp::TINY)),
    ("stmbp", Scheme::Tmbp(Tmbp::SMALL)),
    ("btmbp", Scheme::Tmbp(Tmbp::BIG)),
    ("mix1k", Scheme::Mix(Mix::SMALL)),
    ("mix8k", Scheme::Mix(Mix::MEDIUM)),
    ("mix1m", Scheme::Mix(Mix::LARGE)),
    ("gzip", Scheme::General(General::new(Program::Gzip, 6))),
    #[cfg(feature = "general")]
    ("zstd", Scheme::General(General::new(Program::Zstd, 19))),
    #[cfg(feature = "general")]
    ("xz", Scheme::General(General::new(Program::Xz, 9))),
];

impl Scheme {
    /// The scheme of this name.
    pub fn preset(name: &str) -> Option<Self> {
        PRESETS.iter().find(|(known, _)| *known == name).map(|(_, scheme)| *scheme)
    }
}
