//! What the tests of this crate share.
#![allow(dead_code)]

pub mod editor;
pub mod recording;
pub mod session;

use backsight::Capture;
use backsight::moments::Moments;
use backsight_debug::replay::Replay;

/// A capture of the checkout.
pub fn bundled(name: &str) -> Capture {
    let path = backsight_testing::repository().join("testdata/captures").join(name);
    Capture::open(path).expect("a capture")
}

/// Its moments, with points close together.
pub fn moments(capture: &Capture) -> Moments<'_> {
    let index = capture.moments().distance(64).index(1).expect("an index");
    capture.moments().with_index(index.into())
}

/// A walk that stands at the end.
pub fn replay<'c>(capture: &'c Capture, moments: &Moments<'c>) -> Replay<'c> {
    Replay::new(capture, moments, &capture.execution()).expect("a walk")
}

/// A small source of random numbers.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }

    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}
