# Everything a developer does here. `make` alone lists it.
.DEFAULT_GOAL := help
SHELL := /bin/sh
GO ?= go
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null)
FUZZTIME ?= 20s
BENCH ?= .
COUNT ?= 1
STORES ?= memory,file,redis
SUITES ?= go
JOBS ?= 1
RUN ?=
AMEND ?=
LOGS ?=
FAULTS ?= 300
SEED ?=
ROUNDS ?= 10
SYSTEMS ?=
SCENARIOS ?= peers
MESSAGES ?= 0
WRITE ?=
# The collector takes a quarter of the time of compilers and of tests under the race detector: it runs less often.
export GOGC ?= 300
# Near this limit the collector runs more often, so that a small machine does not swap.
export GOMEMLIMIT ?= 2GiB
# One set of objects for the program and the tests: so the program, too, is built without -trimpath (that
# of a release, by Dockerfile, is built with it). The race detector alone needs a C compiler.
export CGO_ENABLED ?= 0
# Tests run the gateway that make build has built. A bound of minutes is for what hangs, not for what is slow.
test verify attack: export CROSSTOWN_BINARY = $(CURDIR)/bin/crosstown
# Most tests that take long wait for a server, so more of them run at once than there are cores.
TESTFLAGS ?= -vet=off -timeout 60m -parallel 8
# Tests of the gateway's memory, of which the race detector takes several times as much.
MEMORYTESTS = ThreeTimes|ExhaustNothing|WhatIsCharged
# Tests of crashes make a few runs under the race detector, and many without it.
CRASHTESTS = LossOfPower|CrashAtAnyMoment|IDsOfASnapshot|FailedSync|FailedWrite|FlippedBits

help: ## List the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/\1|\2/' | awk -F'|' '{printf "  make %-11s %s\n", $$1, $$2}'

# The program is replaced only where its bytes differ, so that go test knows whether it has changed.
build: ## Build bin/crosstown
	@test -e bin/crosstown || echo "building bin/crosstown (the first build takes up to three minutes)"
	@$(GO) build -ldflags "-s -w -X main.version=$(VERSION)" -o bin/.built/crosstown ./gateway
	@cmp -s bin/.built/crosstown bin/crosstown || { cp bin/.built/crosstown bin/.built/next && mv -f bin/.built/next bin/crosstown; }

run: build ## Run the gateway with its defaults (ARGS="--listen … --store …")
	@exec bin/crosstown $(ARGS)

test: tools build ## Install what the tests need and run every story once
	$(GO) test $(TESTFLAGS) ./...
	$(GO) -C gateway/tools test $(TESTFLAGS) -count=1 ./...

verify: build ## Run the checks, then the tests with the race detector, on every engine and transport (up to 40 minutes)
	@.ci/tools verify
	@.ci/check
	CGO_ENABLED=1 E2E_ALL=1 E2E_CHAOS_KILLS=60 $(GO) test $(TESTFLAGS) -race -shuffle=on -count=1 ./...
	E2E_ALL=1 $(GO) test $(TESTFLAGS) -count=1 -run '$(MEMORYTESTS)' ./gateway/e2e
	CRASH_SEEDS=100 $(GO) test $(TESTFLAGS) -count=1 -run '$(CRASHTESTS)' ./core/store/file/...

attack: build ## Attack the gateway without a key and with narrow keys, a minute for each kind (25 minutes)
	E2E_ALL=1 E2E_EXHAUSTION=60s $(GO) test $(TESTFLAGS) -count=1 -v -run ExhaustNothing ./gateway/e2e

quick: ## Run the fast tests: no server, no SDK, less than a minute
	$(GO) test $(TESTFLAGS) -short ./core/... ./bridges/... ./plugins/builtin ./plugins/sdk ./gateway/internal/...

platforms: ## Build for every platform of a release
	@for p in linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64 windows/arm64; do \
		echo "$$p"; GOOS=$${p%/*} GOARCH=$${p#*/} $(GO) build -trimpath -o /dev/null ./gateway || exit 1; done

check: ## Run the formatters' and linters' checks, of the product and of gateway/tools
	@.ci/check

generate: ## Make the code of the plugins' contract anew (needs protoc)
	@.ci/generate

fuzz: ## Run every fuzz target for FUZZTIME (20s)
	@.ci/fuzz $(FUZZTIME)

chaos: ## Kill and break things FAULTS times (300) under clients, and balance their books (SEED=n)
	$(GO) test $(TESTFLAGS) -count=1 -run RandomPlays ./core/store/redis -seed=0
	E2E_CHAOS_KILLS=$(FAULTS) E2E_CHAOS_SEED=$(SEED) E2E_CHAOS_DISKS=1 $(GO) test -count=1 -v -timeout 120m -run 'Chaos|BooksBalance|FileStoreIsKilled|RollingRestart' ./gateway/e2e

bench: build ## Run the benchmarks, then one round of load through gateways on every store (BENCH=regexp COUNT=n)
	$(GO) test -run '^$$' -bench '$(BENCH)' -benchmem -count $(COUNT) ./core/... ./bridges/... ./plugins/...
	$(GO) -C gateway/tools run ./peers -crosstown bin/crosstown -rounds 1 -systems memory,file,redis -scenarios 1k-16x16,paced-2000,websocket

bench-peers: build ## Measure beside NATS JetStream and RabbitMQ (ROUNDS=n SYSTEMS=memory,nats SCENARIOS=peers,scale MESSAGES=n WRITE=1 for the tables)
	$(GO) -C gateway/tools run ./peers -crosstown bin/crosstown -rounds '$(ROUNDS)' -systems '$(SYSTEMS)' -scenarios '$(SCENARIOS)' -messages '$(MESSAGES)' $(if $(WRITE),-write)

scorecard: build ## Run SDKs' own live tests, write SCORECARD.md and the README's table (SUITES=go,js,python,java,dotnet GO_SDK=dir JS_SDK=dir PYTHON_SDK=dir JAVA_SDK=dir DOTNET_SCENARIOS=dir STORES=memory RUN=regexp AMEND=1 LOGS=dir JOBS=n)
	$(GO) -C gateway/tools run ./scorecard -crosstown bin/crosstown -suites '$(SUITES)' -stores '$(STORES)' -run '$(RUN)' -logs '$(LOGS)' \
		-jobs '$(JOBS)' $(if $(AMEND),-amend) $(if $(GO_SDK),-go '$(GO_SDK)') $(if $(JS_SDK),-js '$(JS_SDK)') $(if $(PYTHON_SDK),-python '$(PYTHON_SDK)') $(if $(JAVA_SDK),-java '$(JAVA_SDK)') $(if $(DOTNET_SCENARIOS),-dotnet '$(DOTNET_SCENARIOS)')

interop: ## Run clients that people use on top, from their published packages (RUN=regexp)
	INTEROP=1 $(GO) -C gateway/tools test -count=1 -v -timeout 90m -run '$(RUN)' ./interop

size: ## Print the size of the code, per part
	$(GO) -C gateway/tools run ./size

screenshots: build ## Take the console's pictures for the README, in headless Chromium
	E2E_ALL=1 E2E_BROWSER=1 E2E_JS=1 E2E_SCREENSHOTS=$(CURDIR)/docs/screenshots $(GO) test -count=1 -run TestTheConsole ./gateway/e2e

demo: ## Send over HTTPS, receive over AMQP, and the other way round, through the gateway of make run if there is one
	@$(GO) run ./examples/https-to-amqp -running

tools: # Install what the tests need and this machine lacks
	@.ci/tools

.PHONY: help build run test verify quick platforms check generate fuzz chaos bench bench-peers scorecard interop screenshots demo tools
