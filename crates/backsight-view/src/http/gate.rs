//! Who is answered.

use std::hash::{BuildHasher as _, RandomState};

use super::request::Request;

/// A key that nobody guesses: the standard library's hashers have keys of the system's random numbers, and what they make of
/// anything tells nothing to those who do not know these.
pub fn new_key() -> String {
    let parts = [(); 2].map(|()| RandomState::new());
    parts.iter().map(|state| format!("{:016x}", state.hash_one("backsight"))).collect()
}

/// Says whom the server answers.
#[derive(Clone, Debug)]
pub(super) struct Gate {
    pub key: String,
    pub port: u16,
}

/// Are they the same? It takes the same time wherever they differ.
fn is_same(one: &str, other: &str) -> bool {
    let differ = one.bytes().zip(other.bytes()).fold(0, |sum, (one, other)| sum | (one ^ other));
    one.len() == other.len() && differ == 0
}

impl Gate {
    /// Why a request is not answered.
    pub fn refuse(&self, request: &Request) -> Option<&'static str> {
        let port = self.port;
        let hosts = [format!("127.0.0.1:{port}"), format!("localhost:{port}")];
        if !hosts.contains(&request.host) {
            return Some("this server is not that host");
        }
        if !request.path.first().is_some_and(|key| is_same(key, &self.key)) {
            return Some("the key is missing: the address is what `backsight view` said");
        }
        if let Some(origin) = &request.origin
            && !hosts.iter().any(|host| origin.strip_prefix("http://") == Some(host))
        {
            return Some("a page of another origin is not answered");
        }
        // A link that leads to the page may be anywhere; what the page loads, it loads itself.
        let is_page = request.path.len() == 2 && request.path[1].is_empty();
        let is_own = request.site.as_deref().is_none_or(|site| matches!(site, "same-origin" | "none"));
        (!is_own && !is_page).then_some("another site is not answered")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_long_and_differ() {
        assert_eq!(new_key().len(), 32);
        assert_ne!(new_key(), new_key());
    }

    #[test]
    fn only_those_who_know_the_key_are_answered_and_no_page_from_elsewhere() {
        let gate = Gate { key: "k3y".to_owned(), port: 80 };
        let good = Request {
            path: ["k3y", "api", "at"].map(str::to_owned).to_vec(),
            host: "127.0.0.1:80".to_owned(),
            ..Request::default()
        };
        assert_eq!(gate.refuse(&good), None);
        let own = Some("http://localhost:80".to_owned());
        assert_eq!(gate.refuse(&Request { origin: own, ..good.clone() }), None);
        let with = |change: &dyn Fn(&mut Request)| {
            let mut request = good.clone();
            change(&mut request);
            gate.refuse(&request)
        };
        assert!(with(&|request| request.path[0] = "k3x".to_owned()).is_some());
        assert!(with(&|request| request.path[0] = "k3yy".to_owned()).is_some());
        assert!(with(&|request| request.path.clear()).is_some());
        assert!(with(&|request| request.host = "evil.example:80".to_owned()).is_some());
        assert!(with(&|request| request.host = String::new()).is_some());
        assert!(with(&|request| request.host = "127.0.0.1:81".to_owned()).is_some());
        assert!(with(&|request| request.origin = Some("http://evil.example".to_owned())).is_some());
        assert!(with(&|request| request.origin = Some("null".to_owned())).is_some());
        assert!(with(&|request| request.site = Some("cross-site".to_owned())).is_some());
        assert!(with(&|request| request.site = Some("same-site".to_owned())).is_some());
        // A link to the page itself.
        let page = |request: &mut Request| {
            request.path = vec!["k3y".to_owned(), String::new()];
            request.site = Some("cross-site".to_owned());
        };
        assert_eq!(with(&page), None);
    }
}
