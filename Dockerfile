# The gateway beside valkey-server, so that `docker run` alone keeps messages in
# the volume /data; with CROSSTOWN_STORE=redis://… the server is left alone.
FROM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=
RUN CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X main.version=$VERSION" -o /crosstown ./gateway

FROM valkey/valkey:8-alpine
COPY --from=build /crosstown /usr/local/bin/crosstown
USER valkey
ENV CROSSTOWN_DATA=/data \
    CROSSTOWN_LISTEN=0.0.0.0:5672,0.0.0.0:5300,0.0.0.0:5671,0.0.0.0:8443
VOLUME /data
EXPOSE 5672 5300 5671 8443
HEALTHCHECK --interval=10s --timeout=5s --start-period=5s CMD ["wget", "-q", "-O", "-", "http://127.0.0.1:5300/health"]
STOPSIGNAL SIGTERM
# A container listens where other machines may reach it, so the public
# development key is refused: pass --policy RootManageSharedAccessKey=KEY:Send,Listen,Manage,
# or --dev-key-anywhere where only you can reach the published ports.
ENTRYPOINT ["crosstown"]
