//! A command of the operator's choice for each alarm. It never keeps anything waiting: one runs
//! at a time, the same alarm at most once a minute, and the next run reports what came in between.

use std::collections::VecDeque;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How often the command runs for alarms of one name.
const PAUSE: Duration = Duration::from_secs(60);
/// How long a command may take before it is killed.
const PATIENCE: Duration = Duration::from_secs(60);
/// Alarms that wait for the command.
const WAITING: usize = 64;

struct Waiting {
    name: String,
    text: String,
    /// Alarms of that name that it stands for.
    count: u64,
}

/// Runs the command.
pub struct AlarmCommand {
    command: String,
    array: String,
    waiting: VecDeque<Waiting>,
    running: Option<(Child, Instant)>,
    last: Vec<(String, Instant)>,
    /// Alarms for which there was no room.
    lost: u64,
}

impl AlarmCommand {
    /// A command for the shell.
    pub fn new(command: &str, array: &str) -> AlarmCommand {
        AlarmCommand {
            command: command.to_string(),
            array: array.to_string(),
            waiting: VecDeque::new(),
            running: None,
            last: Vec::new(),
            lost: 0,
        }
    }

    /// An alarm was raised.
    pub fn raise(&mut self, name: &str, text: &str) {
        if let Some(waiting) = self.waiting.iter_mut().find(|waiting| waiting.name == name) {
            (waiting.text, waiting.count) = (text.to_string(), waiting.count + 1);
        } else if self.waiting.len() < WAITING {
            self.waiting.push_back(Waiting {
                name: name.to_string(),
                text: text.to_string(),
                count: 1,
            });
        } else {
            self.lost += 1;
        }
    }

    /// Begins what is due. Called each second.
    pub fn turn(&mut self, now: Instant) {
        if let Some((child, since)) = &mut self.running {
            match child.try_wait() {
                Ok(None) if now.duration_since(*since) < PATIENCE => return,
                Ok(None) => {
                    tracing::warn!(target: "destage", "the alarm command takes too long: killed");
                    // With what it has begun itself.
                    let group = rustix::process::Pid::from_child(child);
                    let kill = rustix::process::Signal::KILL;
                    let _ = rustix::process::kill_process_group(group, kill);
                    let _ = child.wait();
                }
                Ok(Some(status)) if !status.success() => {
                    tracing::warn!(target: "destage", "the alarm command ended with {status}");
                }
                Ok(Some(_)) => {}
                Err(error) => {
                    tracing::warn!(target: "destage", "the alarm command: {error}");
                }
            }
            self.running = None;
        }
        self.last.retain(|(_, at)| now.duration_since(*at) < PAUSE);
        let last = &self.last;
        let due = |waiting: &Waiting| last.iter().all(|(name, _)| *name != waiting.name);
        let Some(at) = self.waiting.iter().position(due) else { return };
        let Some(Waiting { name, text, count }) = self.waiting.remove(at) else { return };
        self.last.push((name.clone(), now));
        let begun = Command::new("/bin/sh")
            .args(["-c", &self.command])
            .env("DESTAGE_ARRAY", &self.array)
            .env("DESTAGE_ALARM", name)
            .env("DESTAGE_TEXT", text)
            .env("DESTAGE_COUNT", count.to_string())
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn();
        match begun {
            Ok(child) => self.running = Some((child, now)),
            Err(error) => {
                tracing::warn!(target: "destage", "the alarm command cannot be run: {error}");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait(alarms: &mut AlarmCommand, at: Instant) {
        for _ in 0..500 {
            alarms.turn(at);
            if alarms.running.is_none() {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("the command did not end");
    }

    #[test]
    fn the_command_hears_of_each_name_once_a_minute() {
        let folder = tempfile::tempdir().expect("a folder");
        let out = folder.path().join("out");
        let command = format!(
            "echo $DESTAGE_ARRAY $DESTAGE_ALARM $DESTAGE_COUNT \"$DESTAGE_TEXT\" >> {}",
            out.display()
        );
        let mut alarms = AlarmCommand::new(&command, "tank");
        let start = Instant::now();
        alarms.raise("member-failed", "member 1");
        wait(&mut alarms, start);
        // The same again, twice, and another.
        alarms.raise("member-failed", "member 2");
        alarms.raise("member-failed", "member 3; $(touch x)");
        alarms.raise("nvs-lost", "gone");
        wait(&mut alarms, start + Duration::from_secs(1));
        wait(&mut alarms, start + Duration::from_secs(2));
        let output = || std::fs::read_to_string(&out).expect("read");
        assert_eq!(output(), "tank member-failed 1 member 1\ntank nvs-lost 1 gone\n");
        alarms.turn(start + Duration::from_secs(61));
        wait(&mut alarms, start + Duration::from_secs(61));
        assert!(output().ends_with("tank member-failed 2 member 3; $(touch x)\n"), "{}", output());
    }

    #[test]
    fn a_command_that_hangs_is_killed_and_keeps_nobody_waiting() {
        let mut alarms = AlarmCommand::new("exec sleep 600", "tank");
        let start = Instant::now();
        alarms.raise("a", "x");
        alarms.turn(start);
        let child = alarms.running.as_ref().expect("running").0.id();
        alarms.raise("b", "y");
        alarms.turn(start + Duration::from_secs(30));
        assert_eq!(alarms.running.as_ref().map(|(child, _)| child.id()), Some(child));
        alarms.turn(start + PATIENCE);
        assert_ne!(alarms.running.as_ref().map(|(child, _)| child.id()), Some(child));
        let (mut other, _) = alarms.running.take().expect("the next");
        other.kill().expect("killed");
        other.wait().expect("gone");
        assert!(start.elapsed() < Duration::from_secs(10));
    }
}
