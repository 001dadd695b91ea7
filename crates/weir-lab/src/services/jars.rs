//! The jars of Kafka and Cassandra, from the registry that Maven is configured for.

use std::fs;
use std::path::{Path, PathBuf};

use super::{Lab, kept};
use crate::error::{LabError, Tried as _};

/// The version of Kafka that scenarios run.
pub(crate) const KAFKA: &str = "4.3.1";

/// The version of Cassandra that scenarios run.
pub(crate) const CASSANDRA: &str = "5.0.5";

/// Whose jars.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Jars {
    Kafka,
    Cassandra,
}

impl Jars {
    /// The name of the directory in the cache.
    fn name(self) -> String {
        match self {
            Self::Kafka => format!("kafka-{KAFKA}"),
            Self::Cassandra => format!("cassandra-{CASSANDRA}"),
        }
    }

    /// Group, name and version of what Maven fetches, with all that these need.
    fn artifacts(self) -> &'static [(&'static str, &'static str, &'static str)] {
        match self {
            Self::Kafka => &[
                ("org.apache.kafka", "kafka_2.13", KAFKA),
                ("org.apache.kafka", "kafka-tools", KAFKA),
                ("org.slf4j", "slf4j-simple", "1.7.36"),
            ],
            Self::Cassandra => &[("org.apache.cassandra", "cassandra-all", CASSANDRA)],
        }
    }
}

/// The directory of the jars; fetches them if it does not exist.
pub(super) fn prepare(lab: &Lab, jars: Jars) -> Result<PathBuf, LabError> {
    kept::directory(lab, &jars.name(), |path| fetch(lab, jars, path))
}

fn fetch(lab: &Lab, jars: Jars, directory: &Path) -> Result<(), LabError> {
    fs::create_dir(directory).tried(|| format!("make {}", directory.display()))?;
    let project = directory.join("pom.xml");
    fs::write(&project, pom(jars)).tried(|| format!("write {}", project.display()))?;
    let maven = ["mvn", "-q", "-B", "-f"].map(str::to_owned);
    let goal = [
        project.display().to_string(),
        "dependency:copy-dependencies".to_owned(),
        format!("-DoutputDirectory={}", directory.display()),
        "-DincludeScope=runtime".to_owned(),
    ];
    kept::run(lab, &[maven, goal].concat())
}

fn pom(jars: Jars) -> String {
    let artifacts = jars.artifacts().iter();
    let dependencies = artifacts.map(|(group, name, version)| {
        format!(
            "<dependency><groupId>{group}</groupId><artifactId>{name}</artifactId><version>{version}</version></dependency>"
        )
    });
    format!(
        "<project xmlns=\"http://maven.apache.org/POM/4.0.0\"><modelVersion>4.0.0</modelVersion>\
         <groupId>weir</groupId><artifactId>lab</artifactId><version>1</version><packaging>pom</packaging>\
         <dependencies>{}</dependencies></project>\n",
        dependencies.collect::<String>()
    )
}
