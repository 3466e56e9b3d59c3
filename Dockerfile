# The gateway, which keeps messages in files of the volume /data, or elsewhere with
# CROSSTOWN_STORE=redis://…
# For both platforms: docker buildx build --platform linux/amd64,linux/arm64 .
FROM --platform=$BUILDPLATFORM golang:1.26.8@sha256:3c3e25a4da13fd0478eed2df1eb35a0e667094a7124d3993a6a1d30f71c17e79 AS build
RUN mkdir /data
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION= TARGETOS TARGETARCH
RUN CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH go build -trimpath -ldflags "-s -w -X main.version=$VERSION" -o /crosstown ./gateway

FROM alpine:3.22@sha256:14358309a308569c32bdc37e2e0e9694be33a9d99e68afb0f5ff33cc1f695dce
COPY --from=build /crosstown /usr/local/bin/crosstown
# A new volume takes the owner of the directory.
COPY --from=build --chown=999:1000 /data /data
COPY configs/emulator-config.json /ServiceBus_Emulator/ConfigFiles/Config.json
# By number: orchestrators can tell that it is not root.
USER 999:1000
# The image takes the place of the official emulator's: it reads Config.json
# there, listens on every interface and takes the public development key, so
# publish its ports where only you can reach them. For anything else set
# CROSSTOWN_EMULATOR=false, CROSSTOWN_LISTEN, and a policy with a key of your own
# (CROSSTOWN_POLICY=RootManageSharedAccessKey=KEY:Send,Listen,Manage).
ENV CROSSTOWN_EMULATOR=true \
    CROSSTOWN_DATA=/data
VOLUME /data
EXPOSE 5672 5300 5671 8443
HEALTHCHECK --interval=10s --timeout=6s --start-period=5s CMD ["crosstown", "health"]
STOPSIGNAL SIGTERM
ENTRYPOINT ["crosstown"]
