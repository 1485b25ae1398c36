//! Durable workflows for wfhost, as async functions.
//!
//! ```ignore
//! use wfhost_workflow as wf;
//!
//! async fn welcome(name: String) -> wf::Result<String> {
//!     let greeting: String = wf::body("greet", || Ok(format!("hello {name}"))).await?;
//!     wf::sleep("three days", Duration::from_secs(3 * 86_400)).await?;
//!     Ok(greeting)
//! }
//!
//! wf::module! { workflows: { "welcome" => welcome } }
//! ```
//!
//! A workflow can sleep for a year while its host restarts, and continues where it was: its calls are recorded, and replayed. So it
//! must be deterministic, and is if everything outside is reached by steps: [`body`] for code of its own, [`step`] for a handler.
//! It must not use futures of other crates' executors, threads or the machine's clock.
//!
//! Each function that starts a call returns a [`Call`], a future. The call has started when the function returns. Dropping a `Call`
//! before it is done withdraws it: a signal stays for the next wait, and a step in progress continues without a waiter.
#![cfg_attr(not(feature = "std"), no_std)]
#[doc(hidden)]
pub extern crate alloc;

pub mod http;
pub mod json;
pub mod sys;

mod call;
mod error;
mod options;
mod payload;
mod run;
mod select;
mod update;

pub use call::*;
pub use error::*;
pub use options::*;
pub use payload::*;
pub use run::{is_cancelled, on_query, spawn, Task};
pub use select::*;
pub use update::*;

#[doc(hidden)]
pub mod internal {
    pub use crate::run::{answer_step, describe, run, run_step, Description};
}

/// Defines the exports of a module: its workflows, and its step functions.
///
/// ```ignore
/// wf::module! {
///     workflows: {
///         "order" => order { signals: ["approved"], queries: ["status"], updates: ["add"] },
///         "drip" => drip,
///     },
///     steps: { "charge" => charge }
/// }
/// ```
///
/// A workflow is an `async fn` of its input, a step function is an `fn`. Other fields of a workflow are `input_schema` and
/// `output_schema`, JSON Schemas as text.
#[macro_export]
macro_rules! module {
    (workflows: { $($name:literal => $workflow:path $({ $($field:ident : $value:expr),* $(,)? })?),* $(,)? }
     $(, steps: { $($step:literal => $function:path),* $(,)? })? $(,)?) => {
        #[no_mangle]
        pub extern "C" fn workflow_run() -> i32 {
            let name = $crate::info().workflow;
            $(if name == $name {
                return $crate::internal::run($workflow);
            })*
            $crate::internal::answer_step::<()>(Err($crate::Failure::new(
                &$crate::alloc::format!("the module has no workflow {}", name),
            )))
        }
        #[no_mangle]
        pub extern "C" fn workflow_step() -> i32 {
            let name = $crate::step_info().handler;
            $($(if name == $step {
                return $crate::internal::run_step($function);
            })*)?
            $crate::internal::answer_step::<()>(Err($crate::Failure::new(
                &$crate::alloc::format!("the module has no step function {}", name),
            ).fatal()))
        }
        #[no_mangle]
        #[allow(clippy::needless_update)]
        pub extern "C" fn workflow_describe() {
            $crate::internal::describe(
                &[$($crate::internal::Description { name: $name, $($($field: ($value).as_ref(),)*)? ..Default::default() }),*],
                &[$($($step),*)?],
            );
        }
    };
}
