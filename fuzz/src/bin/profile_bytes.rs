//! Any bytes as a profile that was sent from elsewhere: refused, or what it is when it is sent again.

#![no_main]

use backsight_profile::Profile;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some(mut profile) = Profile::from_bytes(data) else { return };
    let sent = profile.to_bytes().expect("bytes");
    let again = Profile::from_bytes(&sent).expect("a profile");
    assert_eq!(again.to_bytes().expect("bytes"), sent);
    profile.merge(again);
});
