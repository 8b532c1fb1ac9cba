# The same ground as `make setup`, in an image: Flink from the locked wheel, the Kafka connector from
# pom.xml, Python 3.11. Not Flink's own image: its Ubuntu brings another Python, and a second source
# of Flink would have to be kept at the version of the wheel.
#
# Not built: no engine answers on the machine where this was written. Its steps were run by hand in
# /opt/tablegate, up to a TaskManager that registered and metrics that answered; they are
# those of `make setup`, and tests/core/test_ground.py compares the rest.
FROM python:3.11-bookworm

# Debian 12 has exactly the Java that the wheel's JVM options are for. Maven copies the jars.
RUN apt-get update \
    && apt-get install -y --no-install-recommends openjdk-17-jdk-headless maven \
    && rm -rf /var/lib/apt/lists/*

WORKDIR /opt/tablegate
COPY pom.xml pyproject.toml requirements.lock LICENSE ./
COPY flink-conf/ flink-conf/
COPY conf/ conf/
COPY ops/ ops/
COPY udfs/ udfs/
COPY jobs/ jobs/
COPY sql/ sql/
RUN python3.11 -m ops.setup

# The configuration for clusters, instead of the one that is filled in for each local instance.
ENV FLINK_CONF_DIR=/opt/tablegate/flink-conf/cluster \
    FLINK_LOG_DIR=/var/log/flink \
    FLINK_PID_DIR=/var/log/flink \
    PATH=/opt/tablegate/build/flink-home/bin:/opt/tablegate/.venv/bin:$PATH

# /state is where flink-conf/cluster/config.yaml puts checkpoints, savepoints and local state.
RUN useradd --system --create-home flink && mkdir -p /state /var/log/flink \
    && chown flink: /state /var/log/flink
USER flink
VOLUME /state
