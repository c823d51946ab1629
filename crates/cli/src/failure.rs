//! Why a command ended without a result, and its exit code.

use std::fmt;

/// A failure with a message of one line.
#[derive(Debug)]
pub enum Failure {
    /// Bad arguments: exit code 2.
    Usage(String),
    /// Good arguments, but it could not be done: exit code 1.
    Failed(String),
}

impl Failure {
    /// The exit code.
    pub fn exit_code(&self) -> u8 {
        match self {
            Failure::Usage(_) => 2,
            Failure::Failed(_) => 1,
        }
    }

    /// Bad arguments.
    pub fn usage(error: impl fmt::Display) -> Failure {
        Failure::Usage(error.to_string())
    }

    /// Could not be done.
    pub fn failed(error: impl fmt::Display) -> Failure {
        Failure::Failed(error.to_string())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Failure::Usage(message) | Failure::Failed(message)) = self;
        f.write_str(&message.replace('\n', " "))
    }
}

/// An unknown name is a bad argument; a spec file that cannot be used is a failure.
impl From<destage_disk::SpecError> for Failure {
    fn from(error: destage_disk::SpecError) -> Failure {
        match error {
            destage_disk::SpecError::Unknown { .. } => Failure::usage(error),
            error => Failure::failed(error),
        }
    }
}

#[cfg(feature = "plan")]
impl From<destage_sim::compare::CompareError> for Failure {
    fn from(error: destage_sim::compare::CompareError) -> Failure {
        use destage_sim::compare::CompareError;
        match &error {
            CompareError::Option(option) if option.is_input => Failure::failed(error),
            CompareError::Option(_) => Failure::usage(error),
            CompareError::Run { .. } => Failure::failed(error),
        }
    }
}

#[cfg(feature = "plan")]
impl From<destage_sim::options::OptionError> for Failure {
    fn from(error: destage_sim::options::OptionError) -> Failure {
        destage_sim::compare::CompareError::Option(error).into()
    }
}

#[cfg(feature = "plan")]
impl From<destage_sim::readcache::StudyError> for Failure {
    fn from(error: destage_sim::readcache::StudyError) -> Failure {
        use destage_sim::readcache::StudyError;
        match &error {
            StudyError::Policy(_) | StudyError::Penalty(_) => Failure::usage(error),
            StudyError::NoReads(_) | StudyError::Trace(_) => Failure::failed(error),
        }
    }
}

#[cfg(feature = "plan")]
impl From<destage_report::WriteError> for Failure {
    fn from(error: destage_report::WriteError) -> Failure {
        Failure::failed(error)
    }
}
