//! Names for the process: workers, logs, metrics, sections, files.

use super::{ForeignName, write};

pub(super) const ROWS: &[ForeignName] = &[
    write("timeout grace grace_period hard_stop_after max wait", "write deadline = \"30s\"")
        .beside(&["delay", "deadline"]),
    write(
        "file path to output filename dest",
        "remove it: the operator log goes to stderr, which systemd keeps; requests are in access_log",
    )
    .beside(&["level", "format"]),
    write(
        "worker_processes nbthread nbproc threads worker_threads cpus worker thread_count concurrency",
        "write workers = 4 at the top, or leave \"auto\"",
    ),
    write(
        "error_log loglevel logging verbose debug quiet",
        "write log = \"info\" at the top: \"error\", \"warn\", \"info\" or \"debug\"",
    ),
    write(
        "log_format accesslog logs log_file custom_log transfer_log option_httplog httplog \
         option_tcplog",
        "write access_log = \"/var/log/lockgate/access.log\", or \"combined:/var/log/lockgate/access.log\"",
    ),
    write("log logs", "write access_log = \"combined:/var/log/lockgate/app.log\"").beside(&["strip_prefix"]),
    write("file path output filename file_path dest", "write to = \"/var/log/lockgate/access.log\"")
        .beside(&["mask_ip"]),
    write(
        "syslog journald log_syslog",
        "remove it: logs go to stdout and stderr, which systemd keeps; access_log = \"stdout\" is the default",
    ),
    write(
        "prometheus stats status stub_status stats_enable stats_uri monitor_uri monitoring pprof \
         server_status",
        "write metrics = \"127.0.0.1:9090\" at the top: /metrics, /top, /health and /ready",
    ),
    write(
        "exporter exporters metrics_exporter metrics_exporters graphite carbon statsd influx influxdb \
         influx_db2 datadog dogstatsd telegraf collectd",
        "write them into [export]: graphite = \"10.0.0.9:2003\", statsd or influx likewise",
    ),
    write(
        "otlp opentelemetry_metrics otel_exporter",
        "write otlp = \"http://10.0.0.9:4318\" into [export]",
    ),
    write(
        "opentelemetry otel opentelemetry_metrics",
        "write otlp = \"http://10.0.0.9:4318\"",
    )
    .beside(&["graphite", "statsd"]),
    write(
        "endpoint address collector server",
        "write url = \"http://10.0.0.9:4318\"",
    )
    .beside(&["headers", "compression"]),
    write(
        "sampling sample_rate sampler ratio trace_ratio",
        "write traces = \"1%\", or traces = \"parent\"",
    )
    .beside(&["headers", "compression"]),
    write("carbon", "write graphite = \"10.0.0.9:2003\"").beside(&["graphite", "statsd"]),
    write(
        "influxdb influx_db2 telegraf",
        "write influx = \"http://10.0.0.9:8086/write?db=lockgate\", or \"udp://127.0.0.1:8094\" for Telegraf",
    )
    .beside(&["graphite", "statsd"]),
    write(
        "datadog dogstatsd",
        "write statsd = { address = \"127.0.0.1:8125\", tags = \"dogstatsd\" }",
    )
    .beside(&["graphite", "statsd"]),
    write(
        "interval push_interval flush_interval resolution",
        "write every = \"10s\"",
    )
    .beside(&["graphite", "statsd"]),
    write(
        "host server servers addr endpoint url to",
        "write address = \"10.0.0.9:2003\"",
    )
    .beside(&["address", "tags"]),
    write(
        "address host server addr endpoint to",
        "write url = \"http://10.0.0.9:8086/write?db=lockgate\"",
    )
    .beside(&["url", "token", "every"]),
    write(
        "dashboard ui api stats_auth",
        "write metrics = \"127.0.0.1:9090\" at the top: /top shows clients and traffic, as JSON",
    ),
    write(
        "admin_socket admin_api control control_socket runtime_api stats_socket",
        "write admin = \"unix:/run/lockgate/admin.sock\" at the top, and ask by `lockgate status`",
    ),
    write(
        "ping healthz readiness liveness",
        "write metrics = \"127.0.0.1:9090\" at the top: /health and /ready answer there",
    ),
    write(
        "group chroot daemon daemonize pidfile pid worker_rlimit_nofile ulimit_n nofile \
         master_process",
        "remove it: systemd does this; user = \"lockgate\" drops privileges",
    ),
    write("includes import imports load file_provider", "write include = [\"sites/*.toml\"] at the top"),
    write("providers provider", "write include = [\"sites/*.toml\"] at the top: one configuration, in files"),
    write(
        "shutdown_timeout grace graceful_timeout hard_stop_after grace_period graceful_shutdown \
         worker_shutdown_timeout grace_time_out",
        "write drain = { deadline = \"30s\" } at the top",
    ),
    write(
        "hot_reload live_reload auto_reload watch watch_config",
        "write reload = \"watch\" at the top",
    ),
    write(
        "data_dir cache_dir storage storage_dir state_dir work_dir",
        "write state = \"/var/lib/lockgate\" at the top",
    ),
    write(
        "resolver resolvers nameserver nameservers dns_servers",
        "write dns = { servers = [\"10.0.0.53:53\"] } at the top, or leave those of /etc/resolv.conf",
    ),
    write(
        "http global defaults apps events main general options settings config common",
        "there is no such section: keys stand at the top, in [tls], [site.\"HOST\"], [pool.NAME] or [tcp.\"ADDR\"]",
    ),
    write(
        "env environment variables vars set define setenv geo_vars",
        "there are no variables: ${env:NAME} in a string is replaced by an environment variable, ${file:PATH} by a file",
    ),
    write(
        "snippets templates middlewares middleware plugins_order handle_response chain filters",
        "write it in the table of the site, whose paths inherit it: auth, limit, headers, compress, strip_prefix and so on are keys",
    ),
    write(
        "name description comment id label title",
        "remove it: the key of the table is its name; # begins a comment",
    ),
    write(
        "enabled enable disabled disable active",
        "remove it: every key in the file is active; # before a line disables it",
    ),
    write(
        "priority weight_order precedence",
        "remove it: the most specific path or host wins, whatever the order",
    ),
    write("version schema api_version config_version", "remove it: the file has no version"),
];
