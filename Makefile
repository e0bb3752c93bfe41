# Holdfast: one place for every command of the repository. make help lists them:
# a line with ## behind a target is its help, and a line ##@ begins a group.

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:
MAKEFLAGS += --no-print-directory

GO ?= go

# The modules, as go.work lists them. To work on one of them:
#   make test MODULES=store/goredis
MODULES ?= $(shell $(GO) work edit -json go.work | sed -n 's/^.*"DiskPath": *"\(.*\)".*$$/\1/p')

# More flags for go test, such as TESTFLAGS='-run TestHandOver -count 20'.
TESTFLAGS ?=

# The race detector needs cgo, and so a C compiler; go env answers 0 for it
# where there is none. Then the tests run without it, and the last line says so.
RACE ?= $(if $(filter 1,$(shell $(GO) env CGO_ENABLED)),-race)

# Pinned: a new release of a tool must not turn yesterday's commit red. The version is in
# the file's name, so that a new pin is a new file.
LINT_VERSION := 2.15.0
GOLANGCI_LINT ?= $(CURDIR)/bin/golangci-lint-$(LINT_VERSION)
GOTESTSUM_VERSION := 1.13.0
GOTESTSUM ?= $(CURDIR)/bin/gotestsum-$(GOTESTSUM_VERSION)
GOVULNCHECK_VERSION := 1.9.0
GOVULNCHECK ?= $(CURDIR)/bin/govulncheck-$(GOVULNCHECK_VERSION)

ifndef VERSION
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)
endif

# $(call each,what,command) runs a command in every module, one after the
# other: go uses all processors for one, and tests that measure time must not
# run beside others. All modules are tried; the last line names those that failed.
define each
	@test -n "$(MODULES)" || { echo "no modules: is go.work here?" >&2; exit 1; }; \
	failed=; count=0; \
	for module in $(MODULES); do \
		echo "== $(1): $$module"; \
		count=$$((count + 1)); \
		( cd "$$module" && $(2) ) || failed="$$failed $$module"; \
	done; \
	if [ -n "$$failed" ]; then echo "== $(1): FAILED in$$failed" >&2; exit 1; fi; \
	echo "== $(1): $$count of $$count modules passed$(3)"
endef

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^##@ / { printf "\n%s\n", substr($$0, 5) } \
		/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' Makefile
	@echo
	@echo "  one module only:   make test MODULES=store/goredis"
	@echo "  some tests only:   make test MODULES=. TESTFLAGS='-run TestName -count 20'"

# Programs of the system that tests need. HOLDFAST_INSTALL=no: they are not installed.
NEEDS_SERVER = @sh scripts/servers.sh
NEEDS_DATABASES = @$(if $(filter . examples tests,$(MODULES:./%=%)),sh scripts/databases.sh)
NEEDS_PROMTOOL = @$(if $(filter tests,$(MODULES:./%=%)),sh scripts/promtool.sh)

# The modules that a change of the library can break, and nothing that needs a database or a large dependency.
LIBRARY = . store/goredis store/rueidis cmd/holdfast verify

# In these modules, what make test leaves to make test-all: releases, database servers, the servers that tests start, the
# suites of faults, the flaws of other locks, and random sequences for the scripts and memstore, which agree on every
# transcript before that.
LATER = internal/redistest internal/servertest internal/versions verify/holdfast-verify verify/lineage verify/mutation verify/oracle \
	verify/soak verify/suite verify/topology

# The race detector is for packages whose goroutines can race. Their tests take three to ten times as long with it. So
# random tests in virtual time are short with it, and make test-all also runs them without it. The tests of single
# decisions in quorum set and read its fields, so they run without it only.
RACED = contract quorum memstore store/goredis store/rueidis verify/rules \
	internal/adapter internal/batch internal/lifecycle internal/localqueue internal/pushes internal/renewer internal/request
TWICE = contract quorum

# make test leaves these to the race detector of make test-all: what runs there is mostly a server, and to compile their
# client libraries with it takes as long as their tests. Without it, what is compiled serves vet and the tool as well.
# quorum takes 25 s without it, and 98 s with it.
RACED_LATER = store/goredis store/rueidis verify/rules quorum

# The tests of these wait longest for servers. The others are compiled meanwhile.
FIRST = script cmd/holdfast verify/quorum verify/rules store/goredis store/rueidis verify/topology verify/suite bench verify/lineage
# The tests of these build what the others have compiled by then.
LAST = examples packaging internal/versions

export GO RACE RACED TWICE FIRST LAST GOTESTSUM TESTFLAGS

##@ Test

# The transcripts are the scripts against memstore and against one server; the other tests of script take minutes.
QUICK = CGO_ENABLED=0 $(GO) test -trimpath -buildvcs=false -vet=off

.PHONY: quick
quick: ## vet and test the library without the race detector, on memstore and one server (less than a minute)
	$(NEEDS_SERVER)
	@CGO_ENABLED=0 $(GO) vet -trimpath . ./contract ./memstore ./script
	@$(QUICK) -run 'TestTranscripts|TestHeader' ./script
	@$(QUICK) $(TESTFLAGS) . ./contract ./memstore ./internal/localqueue ./internal/pushes ./internal/renewer ./internal/request

.PHONY: test
test: $(GOTESTSUM) ## vet and test what changes with the library; installs a redis-server if there is none
	$(NEEDS_SERVER)
ifeq ($(origin MODULES),file)
	@AT_ONCE=4 LEFT_OUT='$(LATER)' RACED='$(filter-out $(RACED_LATER),$(RACED))' TWICE=contract sh scripts/test.sh test $(LIBRARY)
else
	$(NEEDS_DATABASES)
	$(NEEDS_PROMTOOL)
	@sh scripts/test.sh test $(MODULES)
endif

.PHONY: test-all
test-all: $(GOTESTSUM) ## vet and test all modules, each also alone; installs databases and promtool
	$(NEEDS_SERVER)
	$(NEEDS_DATABASES)
	$(NEEDS_PROMTOOL)
	@ALONE=yes sh scripts/test.sh test-all $(MODULES)

# What takes too long for every day: every package with the race detector, the worlds
# of the simulation and the sequences of the oracle by the thousand, and all tests on
# secured servers.
WORLDS ?= 20000

.PHONY: test-long
test-long: $(GOTESTSUM) ## all with the race detector, on secured servers too, and long searches (an hour; WORLDS=20000)
	$(NEEDS_SERVER)
	$(NEEDS_DATABASES)
	$(NEEDS_PROMTOOL)
	@RACED=all TWICE= TESTFLAGS='-timeout 60m $(TESTFLAGS)' sh scripts/test.sh test-long $(MODULES)
	@$(MAKE) test-servers SERVERS=secured
	cd verify && $(GO) test -timeout 0 -run 'TestWorlds$$' ./sim -seeds $(WORLDS)
	$(GO) test -race -timeout 0 -run TestLocksAreGrantedAgainAfterManyFaults ./quorum -storms 40
	cd verify && $(GO) test -timeout 0 ./oracle -rapid.checks=3000

# Newer servers than this system's are unpacked beside it, from newer suites of Debian: nothing is installed.
# SERVERS='sid/valkey-server' and SUITES='rules' say less.
#
# SERVERS=secured takes this system's server with TLS, the rights of docs/server.md for its clients, and a prefix
# for a tenant. Without: the measurements of bench, other libraries' locks in lineage, the guards of fence, and the
# examples, which are programs for a server as it comes. And without the race detector: with it a handshake of TLS
# takes as long as the shortest requests may, on a machine that has other work.
SERVERS ?=
OPEN_ONLY = /(bench|examples|fence|lineage|moving|sqlbench)(/|$$)

.PHONY: test-servers
test-servers: ## run what depends on the server on newer ones (an hour), or on SERVERS=secured: TLS, few rights, a prefix
	$(NEEDS_SERVER)
ifeq ($(SERVERS),secured)
	$(NEEDS_DATABASES)
	$(NEEDS_PROMTOOL)
	$(call each,test-servers,packages=$$($(GO) list ./... | grep -vE '$(OPEN_ONLY)'); test -z "$$packages" || \
		HOLDFAST_TEST_SERVERS=secured $(GO) test -trimpath $(TESTFLAGS) $$packages)
else
	@SERVERS='$(SERVERS)' sh scripts/test-servers.sh
endif

# Not part of test-all: these need large programs of others, which they install.
#   browser     the page of holdfast serve, in Chromium
#   packages    what make dist makes, by the programs that read it (5 minutes)
#   java        the Java code of docs/moving, against Redisson
#   redisson    our locks against those of real Redisson
#   kubernetes  integrate/leaderelection against client-go: over 700 packages, 280 s of processor time
BESIDE ?= browser packages java redisson kubernetes

.PHONY: test-beside
test-beside: ## test beside programs of others, which it installs (BESIDE='browser packages java redisson kubernetes')
	$(NEEDS_SERVER)
	@sh scripts/test-beside.sh $(BESIDE)

.PHONY: mutation
mutation: ## break the library in over 200 ways, and see that the tests notice each (ten minutes)
	$(NEEDS_SERVER)
	cd verify && $(GO) run ./mutation

.PHONY: model
model: ## search the Spin models in docs/model; installs spin if there is none
	@sh scripts/model.sh

##@ Look

# Not part of test: the first run builds the linter, which takes minutes and a gigabyte of modules, and what a stranger
# wants to know is whether the library works. holdfast-vet is described in docs/vet.md.
.PHONY: lint
lint: $(GOLANGCI_LINT) ## run golangci-lint and holdfast-vet over every module, and look for untidy go.mod files
	@mkdir -p bin && cd vet && GOWORK=off $(GO) build -o ../bin/holdfast-vet ./holdfast-vet
	$(call each,lint,$(GOLANGCI_LINT) run ./... && GOWORK=off $(GO) mod tidy -diff && \
		$(GO) vet -vettool=$(CURDIR)/bin/holdfast-vet ./...)

# Without the workspace: with the versions that each go.mod names, as users get them.
.PHONY: vuln
vuln: $(GOVULNCHECK) ## look for known vulnerabilities that code of any module reaches; asks vuln.go.dev
	$(call each,vuln,GOWORK=off $(GOVULNCHECK) ./...)

.PHONY: tidy
tidy: ## gofmt, and go mod tidy in every module
	gofmt -s -l -w .
	$(call each,tidy,GOWORK=off $(GO) mod tidy)

# The tests of one module run code of another (an adapter's tests run the
# library), so the counts of all are put together before they are judged.
.PHONY: cover
cover: ## measure which lines the tests of all modules reach, in bin/cover.html
	$(NEEDS_SERVER)
	$(NEEDS_DATABASES)
	$(NEEDS_PROMTOOL)
	@rm -rf bin/cover && mkdir -p bin/cover
	$(call each,cover,$(GO) test -cover -coverpkg=github.com/holdfast-go/holdfast/... ./... -args -test.gocoverdir=$(CURDIR)/bin/cover)
	$(GO) tool covdata textfmt -i=bin/cover -o=bin/cover.out
	$(GO) tool cover -html=bin/cover.out -o=bin/cover.html
	@$(GO) tool cover -func=bin/cover.out | tail -n 1

# It goes over all topologies, for DURATION each, and half a minute more with a thousand waiters, which leave nothing to
# others. It leaves pages for a browser, and the histories of broken rounds, in bin/verify.
#
# RECORD=FILE adds rounds to a track record instead, and writes its summary beside the file, with the ending .md. All
# topologies run at the same time, since most of a fault is waiting, and the pairs that the record lacks come first.
DURATION ?= 2m
TOPOLOGIES ?= standalone durable everysec sentinel cluster quorum
VERIFYFLAGS ?=
RECORD ?=

.PHONY: verify
verify: ## run the fault suite over all topologies (DURATION=2m TOPOLOGIES='sentinel cluster' RECORD=bin/rounds.jsonl)
	$(NEEDS_SERVER)
	@mkdir -p bin/verify $(dir $(RECORD)) && $(GO) build -C verify -o ../bin/verify/holdfast-verify ./holdfast-verify
	@DURATION='$(DURATION)' TOPOLOGIES='$(TOPOLOGIES)' VERIFYFLAGS='$(VERIFYFLAGS)' RECORD='$(RECORD)' sh scripts/verify.sh

# A mixed load on one server for DURATION, with the faults of networks and servers. Samples go
# into SOAK, line by line. It fails if goroutines, heap, the server's memory or keys do not return.
SOAK ?= bin/soak.csv

.PHONY: soak
soak: ## a mixed load with faults, and whether memory returns to where it began (DURATION=1h SOAK=file.csv)
	$(NEEDS_SERVER)
	@mkdir -p bin && $(GO) build -C verify -o ../bin/soak ./soak
	bin/soak -duration $(DURATION) -into $(SOAK) $(SOAKFLAGS)

# Two libraries share locks under faults, and the original alone meets the same ones.
NEIGHBOUR ?= redisson
SEED ?= 1
BESIDE_REDISSON = $(if $(filter redisson,$(NEIGHBOUR)),sh scripts/redisson.sh)

.PHONY: fleet
fleet: ## another library's processes and ours under faults (NEIGHBOUR=redisson DURATION=10m SEED=1)
	$(NEEDS_SERVER)
	@mkdir -p bin && $(GO) build -C tests/neighbours -o $(CURDIR)/bin/fleet ./fleet
	@$(BESIDE_REDISSON) bin/fleet -neighbour $(NEIGHBOUR) -duration $(DURATION) -seed $(SEED)

##@ Measure

# What bench measures, see bench/README.md:
#   all       every benchmark that BENCH matches, for benchstat, which needs ten runs to tell a change from noise
#   peers     the peers at every workload, for docs/benchmarks.md (an hour)
#   curves    cost over size, for docs/scaling.md (15 minutes; CURVES=waiters MOST=10000)
#   storm     how long all renewals after a pause take (12 minutes; MOST=100000: 2)
#   servers   what the scripts cost on newer servers (10 minutes)
#   latency   pairs and hand-overs beside the peers, with a server that is far away (LATENCIES='1ms 10ms')
#   hops      a hand-over hop by hop, beside the least that could hand over (2 minutes)
#   redisson  pairs of lock and unlock a second: Redisson, ours, and both together (a minute)
WHAT ?= all
BENCH ?= .
COUNT ?= 10
CURVES ?= .
MOST ?= 1000000
RUNS ?= 2
LATENCIES ?= 1ms 10ms
NOW := $(shell date -u +%Y%m%dT%H%M%SZ)
RESULT ?= bench/results/$(NOW)-$(VERSION).txt
export BENCH COUNT CURVES MOST RUNS LATENCIES RESULT

.PHONY: bench
bench: ## run benchmarks into bench/results (WHAT='all' BENCH=regexp COUNT=10; peers curves storm servers latency hops)
	$(NEEDS_SERVER)
	@sh scripts/bench.sh $(WHAT)

.PHONY: bench-page
bench-page: ## draw docs/benchmarks.md and docs/scaling.md from bench/results, or anew from their figures
	cd bench && $(GO) run ./chart $$(ls results/peers.txt 2>/dev/null)
	cd bench && $(GO) run ./chart -curves -page ../docs/scaling.md \
		$$(ls results/curves.txt results/storm.txt results/servers.txt results/latency.txt 2>/dev/null)

.PHONY: bench-check
bench-check: ## fail if a ratio is worse than bench/recorded.json (5 minutes); RECORD=yes writes it anew
	$(NEEDS_SERVER)
	cd bench && $(GO) run ./guard $(if $(RECORD),-record)

##@ Release

# Without the workspace, so that the binary has the versions that its own
# go.mod names, as go install would give it. Without cgo, as make dist builds
# it: it is smaller, and needs no C library.
.PHONY: build
build: ## build the tool as bin/holdfast, the fault suite as bin/holdfast-verify, and bin/holdfast-vet
	@mkdir -p bin
	cd cmd/holdfast && CGO_ENABLED=0 GOWORK=off $(GO) build -trimpath -ldflags '-s -w' -o ../../bin/holdfast .
	cd verify && CGO_ENABLED=0 GOWORK=off $(GO) build -trimpath -ldflags '-s -w' -o ../bin/holdfast-verify ./holdfast-verify
	cd vet && CGO_ENABLED=0 GOWORK=off $(GO) build -trimpath -ldflags '-s -w' -o ../bin/holdfast-vet ./holdfast-vet

# Where make install puts things. DESTDIR is for those who make packages.
PREFIX ?= /usr/local
DESTDIR ?=
SHARE = $(DESTDIR)$(PREFIX)/share

.PHONY: install
install: build ## install the commands, man pages and completions (PREFIX=/usr/local DESTDIR=)
	install -d $(DESTDIR)$(PREFIX)/bin $(SHARE)/bash-completion/completions $(SHARE)/zsh/site-functions \
		$(SHARE)/fish/vendor_completions.d
	install -m 755 bin/holdfast bin/holdfast-verify bin/holdfast-vet $(DESTDIR)$(PREFIX)/bin
	bin/holdfast man $(SHARE)/man
	bin/holdfast completion bash >$(SHARE)/bash-completion/completions/holdfast
	bin/holdfast completion zsh >$(SHARE)/zsh/site-functions/_holdfast
	bin/holdfast completion fish >$(SHARE)/fish/vendor_completions.d/holdfast.fish

# It removes what make install puts there, and no directory: others may use it.
.PHONY: uninstall
uninstall: ## remove what make install installed (the same PREFIX and DESTDIR)
	rm -f $(addprefix $(DESTDIR)$(PREFIX)/bin/,holdfast holdfast-verify holdfast-vet) \
		$(SHARE)/man/man1/holdfast.1 $(SHARE)/man/man1/holdfast-*.1 $(SHARE)/man/man7/holdfast-*.7 \
		$(SHARE)/bash-completion/completions/holdfast $(SHARE)/zsh/site-functions/_holdfast \
		$(SHARE)/fish/vendor_completions.d/holdfast.fish

# VERSION of this file is what a build says of itself; a release needs one from the command line.
# PROXY=DIR also makes a module proxy of files, to try the version before it is public.
.PHONY: release
release: ## prepare a version: changelog, commit, tags; publishes nothing (VERSION=v0.1.0 PROXY=)
	$(if $(filter command line environment,$(origin VERSION)),,$(error which version? Write: make release VERSION=v0.1.0))
	$(GO) run ./internal/versions -go '$(GO)' $(if $(PROXY),-proxy '$(abspath $(PROXY))') '$(VERSION)'

# Who builds the same commit with the same Go release gets the same bytes.
REF ?= HEAD
DIST ?= bin/dist

.PHONY: dist
dist: ## make archives, Debian packages, bills of materials and checksums of a commit (REF=v0.1.0 DIST=bin/dist)
	cd packaging && $(GO) run . -go '$(GO)' -ref '$(REF)' '$(abspath $(DIST))'

.PHONY: clean
clean: ## remove what make built; benchmark results stay
	rm -rf bin

$(CURDIR)/bin/golangci-lint-%:
	GOWORK=off GOBIN=$(CURDIR)/bin $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v$*
	mv bin/golangci-lint $@

# Built as the tests without the race detector are, so that it shares the standard library with them.
$(CURDIR)/bin/gotestsum-%:
	@CGO_ENABLED=0 GOWORK=off GOBIN=$(CURDIR)/bin $(GO) install -trimpath gotest.tools/gotestsum@v$*
	@mv bin/gotestsum $@

$(CURDIR)/bin/govulncheck-%:
	@CGO_ENABLED=0 GOWORK=off GOBIN=$(CURDIR)/bin $(GO) install -trimpath golang.org/x/vuln/cmd/govulncheck@v$*
	@mv bin/govulncheck $@
