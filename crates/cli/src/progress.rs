//! A progress bar on a terminal, nothing elsewhere.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A bar over `unit`s of unknown number; it shows itself only on a terminal.
pub fn bar(unit: &str) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::stderr_with_hz(4));
    let template =
        format!("{{elapsed_precise}} [{{wide_bar}}] {{pos}}/{{len}} {unit} (to go: {{eta}})");
    let style = ProgressStyle::with_template(&template).expect("a valid template");
    bar.with_style(style.progress_chars("=> "))
}

/// A spinner for work of unknown length.
#[cfg(feature = "plan")]
pub fn spinner(message: &str) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(4));
    bar.set_style(
        ProgressStyle::with_template("{spinner} {elapsed_precise} {msg}")
            .expect("a valid template"),
    );
    bar.set_message(message.to_string());
    bar.enable_steady_tick(std::time::Duration::from_secs(1));
    bar
}
