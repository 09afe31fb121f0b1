//! Arm trace from packets to execution: ETMv4, ETE, ETMv3 and PTM.

mod conformance;
mod corpus;
mod etm3_blocks;
mod etm3_flow;
mod etm4_aarch32;
mod etm4_branches;
mod etm4_corpus;
mod etm4_flow;
mod etm4_runs;
mod etm4_shared_code;
mod etm4_speculation;
mod etm4_wrong_code;
mod etm_corpus;
mod ptm_flow;
mod scene;
