//! A real nginx with nothing shared: its own config, prefix, pid file and temporary files.

use std::fs::create_dir_all;
use std::net::SocketAddr;

use super::process::Process;
use super::{Directory, free_port};

/// A running nginx.
#[derive(Debug)]
pub(crate) struct Nginx {
    pub(crate) address: SocketAddr,
    _process: Process,
    _directory: Directory,
}

impl Nginx {
    /// Starts nginx with `http`, the inside of its `http` block. `ADDRESS` in it stands for where it is to listen, and
    /// `root` is the directory `root` of its own, with `files` in it.
    pub(crate) fn start(http: &str, files: &[(&str, &[u8])]) -> Self {
        let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
        let directory = Directory::new();
        for name in ["root", "temporary"] {
            create_dir_all(directory.file(name)).expect("a temporary directory can be made");
        }
        for (name, content) in files {
            directory.write(&format!("root/{name}"), content);
        }
        let http = http.replace("ADDRESS", &address.to_string());
        // One process, which no worker survives when it is killed.
        let config = format!(
            "daemon off;\nmaster_process off;\npid nginx.pid;\nerror_log stderr;\n\
             events {{ worker_connections 1024; }}\n\
             http {{\naccess_log off;\nkeepalive_requests 1000000;\n\
             client_body_temp_path temporary/body;\nproxy_temp_path temporary/proxy;\n\
             fastcgi_temp_path temporary/fastcgi;\nuwsgi_temp_path temporary/uwsgi;\nscgi_temp_path temporary/scgi;\n\
             {http}\n}}\n"
        );
        let config = directory.write("nginx.conf", config);
        let prefix = directory.file("");
        let [config, prefix] = [&config, &prefix].map(|path| path.to_str().expect("UTF-8"));
        let arguments = ["-p", prefix, "-c", config, "-e", "stderr"];
        let process = Process::start("nginx", &arguments, &directory);
        process.wait_for_port(address);
        Self {
            address,
            _process: process,
            _directory: directory,
        }
    }
}
