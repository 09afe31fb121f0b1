//! What encoder and decoder both keep, in step: branch predictor, jump target cache, return stack.
//!
//! Every synchronisation packet returns all three to their initial state.

mod jump_cache;
mod predictor;
mod return_stack;

pub use jump_cache::JumpCache;
pub use predictor::Predictor;
pub use return_stack::ReturnStack;
