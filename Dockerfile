# A worker's image. Agents' code is not in it: mount it at /app, or build FROM this image and copy it there.
FROM python:3.13-slim AS build
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY workers ./workers
COPY middleware ./middleware
# pip compiles what it installs to bytecode, and stays in it for images built FROM this one
RUN --mount=type=cache,target=/root/.cache/pip \
    python -m venv /opt/placet && /opt/placet/bin/pip install ".[encryption]"

FROM python:3.13-slim
RUN useradd --create-home --uid 10001 placet
COPY --from=build /opt/placet /opt/placet
ENV PATH=/opt/placet/bin:$PATH PYTHONUNBUFFERED=1 PLACET_LOG_FORMAT=json
# by number, so that what runs it sees that it is not root
USER 10001:10001
WORKDIR /app
# its SIGTERM hands segments over: give it more time than PLACET_GRACE_SECONDS (docker's default is 10 s)
ENTRYPOINT ["placet"]
CMD ["worker"]
