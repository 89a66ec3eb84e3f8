# A worker's image. Agents' code is not in it: mount it at /app, or build FROM this image and copy it there.
FROM python:3.13-slim AS build
RUN pip install --no-cache-dir uv
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY workers ./workers
COPY middleware ./middleware
RUN uv venv /opt/placet && uv pip install --python /opt/placet --no-cache ".[encryption]"

FROM python:3.13-slim
RUN useradd --create-home --uid 10001 placet
COPY --from=build /opt/placet /opt/placet
ENV PATH=/opt/placet/bin:$PATH PYTHONUNBUFFERED=1 PLACET_LOG_FORMAT=json
USER placet
WORKDIR /app
# SIGTERM hands segments over; give it more time than PLACET_GRACE_SECONDS (docker's default is 10 s)
STOPSIGNAL SIGTERM
ENTRYPOINT ["placet"]
CMD ["worker"]
