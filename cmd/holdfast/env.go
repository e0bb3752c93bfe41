package main

const environmentText = `Every flag can be set in the environment: HOLDFAST_MAX_RUN sets --max-run. For a flag
without a value, write 1 or true. A flag on the command line wins. An empty variable
counts as not set; an empty flag is refused.

holdfast uses the first server that is set:
  --redis URL, HOLDFAST_REDIS, REDIS_URL, redis://127.0.0.1:6379

A URL is one of:
  redis://[USER@]HOST[:PORT][/DB]           one server, or a node of a Cluster
  rediss://…                                the same with TLS; also rediss+sentinel and
                                            rediss+cluster
  unix://PATH                               a server's socket
  redis+sentinel://HOST[:PORT],…/NAME[/DB]  the primary that Sentinels know by this name
  redis+cluster://HOST[:PORT],…[/DB]        a Cluster, by several of its nodes; /DB on
                                            Valkey 9 only
Three or five independent servers are a quorum (Redlock): write --redis for each, or put
all URLs into the variable, with spaces between them. Every process names the same
servers in the same order.

The password is in the URL of one of those variables, in the file of --password-file
(HOLDFAST_PASSWORD_FILE), or in HOLDFAST_PASSWORD. Every user of a machine can read its
command lines, so holdfast warns of a password in --redis, but accepts it. The file is
read again for each new connection, and so are those of --cacert, --cert and --key: a
password can change while a run holds a lock. The Sentinels' password is in the file of
--sentinel-password-file, or in HOLDFAST_SENTINEL_PASSWORD.
HOLDFAST_TOKEN, HOLDFAST_SCRAPE_TOKEN and HOLDFAST_EVICT_TOKEN are tokens of the page of
holdfast serve, and set no flag.

A command under holdfast run finds these variables:
  HOLDFAST_LOCK_HELD         true
  HOLDFAST_LOCK_NAME         the lock's name
  HOLDFAST_LOCK_KEY          the key of its record on the server
  HOLDFAST_LOCK_TOKEN        the fencing token, which rises with every grant. A resource
                             that remembers the highest token can refuse late writes
  HOLDFAST_LOCK_TTL_MS       the TTL of the lease, in milliseconds
  HOLDFAST_LOCK_MODE         exclusive, shared or permits
  HOLDFAST_LOCK_PERMITS      with --permits: how many permits the command has
  HOLDFAST_LOCK_LIMIT        with --permits: the limit of the semaphore
  HOLDFAST_LOCK_OWNER        with --owner: the owner name
  HOLDFAST_LOCK_ACQUIRED_AT  the time of the grant: UTC, by this machine's clock
  HOLDFAST_LOCK_PID          the process ID of holdfast. With a guardian, it is not the
                             command's parent
  HOLDFAST_LOCK_CHAIN        the locks held around the command, and by which clients. With
                             it, a run inside a run of the same lock fails, instead of
                             waiting for itself, and a deadlock of such runs is found.
                             Nobody can release a lock with it
  HOLDFAST_REDIS             the server's URL without its password, for a holdfast that
                             the command starts
  HOLDFAST_PREFIX            the prefix of the keys, if --prefix has set another one
  HOLDFAST_PASSWORD_FILE     and the variables of the other flags of the connection, if this
                             run has them: --cacert, --cert, --key and so on. A file is
                             named by its whole path
holdfast acquire prints HOLDFAST_LOCK_NAME, HOLDFAST_LOCK_ID and HOLDFAST_LOCK_TOKEN (with
--owner, HOLDFAST_LOCK_OWNER, too) for holdfast extend and holdfast release. A command
under holdfast run has no HOLDFAST_LOCK_ID: its lock belongs to holdfast run.

With several locks, HOLDFAST_LOCK_NAME, _KEY and _TOKEN have one line for each lock, in
the order of the command line.

The command does not find variables that set other flags of this run, as HOLDFAST_SHARED
or HOLDFAST_WAIT do: they would hold for each run inside it. It finds those of the flags
that all commands have, such as HOLDFAST_PREFIX.

holdfast removes HOLDFAST_PASSWORD and HOLDFAST_SENTINEL_PASSWORD. With --pass-url, it
leaves these variables as they are. REDIS_URL belongs to the command: holdfast passes it
on as it is, with a password.`
