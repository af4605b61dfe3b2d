//! The page to sign in on. The server checks the code and begins the session.

use super::document;
use maud::{Markup, html};

/// The path of the page to sign in on.
pub const SIGN_IN_PATH: &str = "/sign-in";

/// Returns the page with a form that sends `code` to [`SIGN_IN_PATH`]. The script takes the code
/// from the fragment of the link; without it, the person types the code. `next` is the page of the
/// console to show afterwards, and `problem` is the reason why the last code was not accepted.
#[must_use]
pub fn sign_in_page(next: &str, problem: Option<&str>) -> Markup {
    document::bare(
        "Sign in",
        html! {
            h1 { "Sign in" }
            p.lead { "Run " code { "tollgate sign-in" } " on the server and open the link that it prints, or type its code or a key here." }
            form.sign-in #sign-in method="post" action=(SIGN_IN_PATH) {
                @if !next.is_empty() { input type="hidden" name="next" value=(next); }
                label for="code" { "Code or key" }
                @if let Some(problem) = problem {
                    p.error #code-error role="alert" { (super::text::line(problem, 300)) }
                }
                input #code name="code" type="password" required autocomplete="off" autocapitalize="off"
                    spellcheck="false" maxlength="200" aria-describedby=[problem.map(|_| "code-error")]
                    aria-invalid=[problem.map(|_| "true")];
                button.primary type="submit" { "Sign in" }
            }
            p.muted { "A code works once, for five minutes." }
        },
    )
}

/// Returns the page that answers a form of an ended session. `sign_in` is the address of the page to
/// sign in on, and `back` that of the page with the form.
#[must_use]
pub fn session_ended_page(sign_in: &str, back: &str) -> Markup {
    document::bare(
        "Your session has ended",
        html! {
            h1 { "Your session has ended" }
            p.lead { "The form was not sent. Sign in in another tab, then reload this page to send it." }
            p { a.button.primary href=(sign_in) target="_blank" { "Sign in in another tab" } }
            p { a href=(back) { "Go back without sending it" } }
        },
    )
}
