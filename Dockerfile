# The controllers as a container image: docker build -t wainwright:0.1.0 .
# Packages are installed by the hashes of requirements/*.txt. The base image is yours to pin:
#   --build-arg PYTHON_IMAGE=python:3.13-slim@sha256:…
ARG PYTHON_IMAGE=python:3.13-slim

FROM ${PYTHON_IMAGE} AS build
WORKDIR /build
COPY requirements/run.txt requirements/build.txt requirements/
RUN python -m venv /build/tools
RUN /build/tools/bin/python -m pip install --no-cache-dir --no-deps --require-hashes -r requirements/build.txt
RUN python -m venv /opt/wainwright
RUN /opt/wainwright/bin/python -m pip install --no-cache-dir --no-deps --require-hashes --only-binary :all: -r requirements/run.txt
COPY pyproject.toml README.md LICENSE ./
COPY src src
RUN /build/tools/bin/python -m pip wheel --no-deps --no-build-isolation --no-index --wheel-dir dist .
RUN /opt/wainwright/bin/python -m pip install --no-deps --no-index dist/*.whl
# The root file system is read-only: what is compiled now need not be compiled at every start.
RUN /opt/wainwright/bin/python -m compileall -q /opt/wainwright/lib
# Nothing is installed at run time.
RUN /opt/wainwright/bin/python -m pip uninstall --quiet --yes pip

FROM ${PYTHON_IMAGE}
COPY --from=build /opt/wainwright /opt/wainwright
ENV PATH=/opt/wainwright/bin:/usr/local/bin:/usr/bin:/bin
ENV PYTHONUNBUFFERED=1
ENV PYTHONDONTWRITEBYTECODE=1
USER 65532:65532
ENTRYPOINT ["/opt/wainwright/bin/wain"]
CMD ["--help"]
