-- Records are the opaque bytes of package store. Whatever is looked up, listed or counted is a column beside them. See TABLES.md.

create table wfhost.meta (name text primary key, value bigint not null);
-- oldest is the lowest number of a newest migration that a release may know and still use this schema.
insert into wfhost.meta values ('oldest', 1), ('format', 4);

-- Who owns a partition. The token is drawn at random for each Acquire: epochs may be given a second time by a database that
-- went back in time.
create table wfhost.partition (
  p smallint primary key,
  epoch bigint not null default 0,
  token uuid,
  owner text not null default ''
) with (fillfactor = 50);
insert into wfhost.partition (p) select generate_series(0, 63);

-- The newest number of each inbox. Senders lock its row as the last thing of their transaction, so numbers become visible in
-- their order.
create table wfhost.inbox_seq (p smallint primary key, newest bigint not null default 0) with (fillfactor = 20);
insert into wfhost.inbox_seq (p) select generate_series(0, 63);

create table wfhost.inbox (
  p smallint not null,
  seq bigint not null,
  command bytea not null,
  primary key (p, seq)
) with (autovacuum_vacuum_scale_factor = 0.02);

-- The end of the journal is in the row of its run until it is long enough for a chunk: a step is one update of one row, which
-- changes no index.
create table wfhost.run (
  created bigint not null,
  wake bigint,                   -- place in the wake index, not negative
  due bigint,                    -- the deadline, if it differs from wake
  ended bigint,                  -- the instant from which retention counts, or of the deletion
  tail_first bigint not null,    -- seq of the first entry in tail
  ns integer not null,
  rev bigint not null,           -- number of commits since the run was created; each commit names the one it follows
  iteration integer not null,
  version integer not null,
  p smallint not null,
  status smallint not null,
  listed smallint,               -- the status whose list has the run: its own, or the last one while it is busy
  busy boolean not null,
  timer boolean not null,        -- sleeps or waits, with a deadline
  deleted boolean not null,
  id text collate "C" not null,
  workflow text collate "C" not null,
  attributes jsonb,
  tail bytea not null,
  state bytea not null,
  primary key (ns, id)
) with (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.05);
create index run_created on wfhost.run (ns, created, id) where not deleted;
create index run_workflow on wfhost.run (ns, workflow, created, id) where not deleted;
create index run_listed on wfhost.run (ns, listed, created, id) where listed is not null;
create index run_busy on wfhost.run (ns, created, id) where busy;
create index run_wake on wfhost.run (p, wake, (ns = 0), ns, id) where wake is not null;
create index run_timer on wfhost.run (ns, wake, id) where timer;
create index run_ended on wfhost.run (p, ns, deleted, ended, id) where ended is not null;

create table wfhost.attribute (
  ns integer not null,
  created bigint not null,
  key text collate "C" not null,
  value text collate "C" not null,
  id text collate "C" not null,
  primary key (ns, key, value, created, id)
);

-- Entries that have left the tail of their run. Never updated.
create table wfhost.chunk (
  first bigint not null,
  ns integer not null,
  iteration integer not null,
  id text collate "C" not null,
  data bytea not null,
  primary key (ns, id, iteration, first)
);

create table wfhost.log (n bigint not null, ns integer not null, id text collate "C" not null, data bytea not null,
  primary key (ns, id, n));
create table wfhost.output (n bigint not null, ns integer not null, id text collate "C" not null, data bytea not null,
  primary key (ns, id, n));

create table wfhost.schedule (
  revision bigint not null,
  wake bigint,
  due bigint,
  ns integer not null,
  p smallint not null,
  id text collate "C" not null,
  data bytea not null,
  primary key (ns, id)
) with (fillfactor = 50);
create index schedule_wake on wfhost.schedule (p, wake, ns, id) where wake is not null;

-- Wakes that belong to no run and no schedule.
create table wfhost.wake (
  wake bigint not null,
  due bigint not null,
  ns integer not null,
  p smallint not null,
  kind smallint not null,
  id text collate "C" not null,
  primary key (p, wake, kind, ns, id)
);

create table wfhost.cell (
  ns integer not null,
  queue text collate "C" not null,
  key bytea not null,
  value bytea not null,
  primary key (ns, queue, key)
) with (autovacuum_vacuum_scale_factor = 0.05);

create table wfhost.hook (ns integer not null, token text collate "C" not null, holder bytea not null, primary key (ns, token));

-- Numbers of runs by status; of status 0, their bytes. Each of several commits at a time has a lane of its own, so that none
-- waits for another.
create table wfhost.count (
  n bigint not null,
  ns integer not null,
  version integer not null,
  status smallint not null,
  lane smallint not null,
  workflow text collate "C" not null,
  primary key (ns, workflow, version, status, lane)
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05);

create table wfhost.namespace (id integer primary key, created bigint not null, name text collate "C" not null unique);
create table wfhost.quota (ns integer primary key, data bytea not null);
create table wfhost.retention (ns integer not null, workflow text collate "C" not null, data bytea not null,
  primary key (ns, workflow));
create table wfhost.limits (ns integer not null, workflow text collate "C" not null, data bytea not null,
  primary key (ns, workflow));
create table wfhost.token (hash bytea primary key, data bytea not null);
create table wfhost.seal_key (id text collate "C" primary key, data bytea not null);

create table wfhost.module (digest bytea primary key, unused boolean not null, info bytea not null, wasm bytea not null);
create index module_unused on wfhost.module (digest) where unused;
create table wfhost.version (
  ns integer not null,
  number integer not null,
  imported boolean not null,
  deleted boolean not null,
  workflow text collate "C" not null,
  module bytea not null,
  data bytea not null,
  primary key (ns, workflow, number)
);
create index version_module on wfhost.version (module) where not deleted;
create index version_newest on wfhost.version (ns, workflow, module, number) where not deleted;

-- The process that has the store open alone, until its lease ends. beats counts its signs of life, and never falls unless the
-- database went back in time.
create table wfhost.holder (one boolean primary key default true check (one), token uuid, name text, until timestamptz,
  beats bigint not null default 0) with (fillfactor = 50);
insert into wfhost.holder default values;

-- The hosts that share the store, each alive until its lease ends. data is what it says of itself.
create table wfhost.member (name text collate "C" primary key, token uuid not null, until timestamptz not null, ttl interval not null,
  data jsonb not null) with (fillfactor = 50);

-- The number of changes of settings: namespaces, quotas, retentions, limits, tokens, keys, versions.
create table wfhost.generation (one boolean primary key default true check (one), settings bigint not null default 1)
  with (fillfactor = 50);
insert into wfhost.generation default values;
