use alloc::format;
use alloc::string::String;
use core::marker::PhantomData;

use crate::call::{last, Bits};
use crate::run::{answer, the_loop};
use crate::{log, signal, sys, Call, Code, Error, Input, Level, Output, Result};

/// The updates of a name: requests to the run whose senders wait for an answer. They are accepted as long as this value lives.
pub struct Updates<I: Input> {
    name: String,
    open: Option<Call<I>>,
}

impl<I: Input + 'static> Updates<I> {
    /// Receives the updates of a name that `accepts` does not refuse. The host calls it on a copy of the workflow where it waits; its
    /// changes are lost.
    pub fn new(name: &str, accepts: impl Fn(I) -> Result<()> + 'static) -> Updates<I> {
        the_loop().validators.borrow_mut().insert(name.into(), answer(accepts));
        Updates { name: name.into(), open: Some(wait(name)) }
    }

    /// Waits for an update. When it returns, the wait for the next update is open.
    pub async fn next(&mut self) -> core::result::Result<Update<I>, Error> {
        let call = self.open.take().unwrap_or_else(|| wait(&self.name));
        let handle = call.handle();
        let input = call.await?;
        self.open = Some(wait(&self.name));
        Ok(Update { input, handle, of: PhantomData })
    }
}

fn wait<I: Input>(name: &str) -> Call<I> {
    signal(&format!("host/update/{}", name))
}

impl<I: Input> Drop for Updates<I> {
    fn drop(&mut self) {
        the_loop().validators.borrow_mut().remove(&self.name);
        if let Some(call) = self.open.take() {
            call.detach(); // an update that was accepted meanwhile fails, and is not lost
        }
    }
}

/// An update that the workflow has taken and must answer.
#[must_use = "its sender waits for the answer"]
pub struct Update<I> {
    pub input: I,
    handle: i64,
    of: PhantomData<I>,
}

impl<I> Update<I> {
    /// Answers the update. If the host refuses the answer because it is over 1 MiB, the update fails with that refusal.
    pub fn reply<O: Output>(self, answer: Result<O>) {
        let (failed, b) = match answer {
            Ok(v) => (0, v.encode()),
            Err(f) => (1, f.json().into_bytes()),
        };
        let refused = self.send(failed, &b);
        if refused >= 0 {
            return;
        }
        let why = last();
        if Code::of(refused) == Code::TooLarge {
            self.send(1, why.as_bytes());
        }
        log(Level::Error, &format!("an answer to an update was refused: {}", why));
    }

    fn send(&self, failed: i32, b: &[u8]) -> i64 {
        let (p, n) = b.bits();
        unsafe { sys::update_reply(self.handle, failed, p, n) }
    }
}
