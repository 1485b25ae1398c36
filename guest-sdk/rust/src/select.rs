use alloc::boxed::Box;
use alloc::vec::Vec;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};

struct PollFn<F>(F);

impl<F> Unpin for PollFn<F> {}

impl<T, F: FnMut(&mut Context<'_>) -> Poll<T>> Future for PollFn<F> {
    type Output = T;
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        (self.0)(cx)
    }
}

/// The output of the first future.
pub enum Either<A, B> {
    First(A),
    Second(B),
}

/// The output of the first future.
pub enum Either3<A, B, C> {
    First(A),
    Second(B),
    Third(C),
}

/// The output of the first future.
pub enum Either4<A, B, C, D> {
    First(A),
    Second(B),
    Third(C),
    Fourth(D),
}

macro_rules! race {
    ($name:ident, $either:ident, $($f:ident: $t:ident => $arm:ident),*) => {
        /// Waits for the first of its futures and drops the rest, in order, which withdraws their calls. [`select!`] uses
        /// it.
        pub async fn $name<$($t: Future),*>($($f: $t),*) -> $either<$($t::Output),*> {
            $(let mut $f = Box::pin($f);)*
            let out = PollFn(|cx: &mut Context<'_>| {
                $(if let Poll::Ready(v) = $f.as_mut().poll(cx) {
                    return Poll::Ready($either::$arm(v));
                })*
                Poll::Pending
            })
            .await;
            $(drop($f);)*
            out
        }
    };
}
race!(race, Either, a: A => First, b: B => Second);
race!(race3, Either3, a: A => First, b: B => Second, c: C => Third);
race!(race4, Either4, a: A => First, b: B => Second, c: C => Third, d: D => Fourth);

/// Waits for the first of two to four futures, drops the rest, which withdraws their calls, and evaluates the arm of the
/// first:
///
/// ```ignore
/// wf::select! {
///     v = wf::signal::<String>("stop") => format!("stopped: {}", v?),
///     _ = wf::sleep("limit", Duration::from_secs(5)) => "too late".into(),
/// }
/// ```
#[macro_export]
macro_rules! select {
    ($a:pat = $fa:expr => $ea:expr, $b:pat = $fb:expr => $eb:expr $(,)?) => {
        match $crate::race($fa, $fb).await {
            $crate::Either::First($a) => $ea,
            $crate::Either::Second($b) => $eb,
        }
    };
    ($a:pat = $fa:expr => $ea:expr, $b:pat = $fb:expr => $eb:expr, $c:pat = $fc:expr => $ec:expr $(,)?) => {
        match $crate::race3($fa, $fb, $fc).await {
            $crate::Either3::First($a) => $ea,
            $crate::Either3::Second($b) => $eb,
            $crate::Either3::Third($c) => $ec,
        }
    };
    ($a:pat = $fa:expr => $ea:expr, $b:pat = $fb:expr => $eb:expr, $c:pat = $fc:expr => $ec:expr,
     $d:pat = $fd:expr => $ed:expr $(,)?) => {
        match $crate::race4($fa, $fb, $fc, $fd).await {
            $crate::Either4::First($a) => $ea,
            $crate::Either4::Second($b) => $eb,
            $crate::Either4::Third($c) => $ec,
            $crate::Either4::Fourth($d) => $ed,
        }
    };
}

/// A future of [`join!`], which keeps its output until all are done.
#[doc(hidden)]
pub struct Kept<F: Future> {
    future: Pin<Box<F>>,
    output: Option<F::Output>,
}

impl<F: Future> Kept<F> {
    pub fn new(f: F) -> Kept<F> {
        Kept { future: Box::pin(f), output: None }
    }

    /// Polls the future unless it is done, and reports whether it is.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> bool {
        if self.output.is_none() {
            if let Poll::Ready(v) = self.future.as_mut().poll(cx) {
                self.output = Some(v);
            }
        }
        self.output.is_some()
    }

    pub fn take(self) -> F::Output {
        self.output.expect("it was polled until it was done")
    }
}

/// Polls until a function reports that everything is done.
#[doc(hidden)]
pub async fn until(mut f: impl FnMut(&mut Context<'_>) -> bool) {
    PollFn(|cx: &mut Context<'_>| if f(cx) { Poll::Ready(()) } else { Poll::Pending }).await
}

/// Waits for all of its futures concurrently, and evaluates to a tuple of their outputs:
/// `let (a, b) = wf::join!(fa, fb);`
#[macro_export]
macro_rules! join {
    ($($f:expr),+ $(,)?) => { $crate::join!(@ () $($f),+) };
    (@ ($($k:ident)*) $f:expr $(, $rest:expr)*) => {{
        let mut kept = $crate::Kept::new($f);
        $crate::join!(@@ ($($k)* kept) $($rest),*)
    }};
    (@@ ($($k:ident)*) $($rest:expr),+) => { $crate::join!(@ ($($k)*) $($rest),+) };
    (@@ ($($k:ident)*)) => {{
        $crate::until(|cx| {
            let mut all = true;
            $(all &= $k.poll(cx);)*
            all
        })
        .await;
        ($($k.take(),)*)
    }};
}

/// Waits for all futures of a list concurrently; the outputs are in the order of the list.
pub async fn join_all<F: Future>(list: Vec<F>) -> Vec<F::Output> {
    let mut kept: Vec<Kept<F>> = list.into_iter().map(Kept::new).collect();
    until(|cx| {
        let mut all = true;
        for k in kept.iter_mut() {
            all &= k.poll(cx);
        }
        all
    })
    .await;
    kept.into_iter().map(Kept::take).collect()
}

/// Waits for the next future of a list that is done, and removes it from the list; `None` if the list is empty.
pub async fn next_of<F: Future + Unpin>(list: &mut Vec<F>) -> Option<F::Output> {
    if list.is_empty() {
        return None;
    }
    let (i, v) = PollFn(|cx: &mut Context<'_>| {
        for (i, f) in list.iter_mut().enumerate() {
            if let Poll::Ready(v) = Pin::new(f).poll(cx) {
                return Poll::Ready((i, v));
            }
        }
        Poll::Pending
    })
    .await;
    drop(list.remove(i));
    Some(v)
}
