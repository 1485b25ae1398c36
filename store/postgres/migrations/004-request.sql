-- Requests: starts, signals and cancels that programs ask for in transactions of their own. The server takes them when they are
-- committed, in the order of their ids for each run, and deletes them when they are durable.

create table wfhost.request (
  id bigint generated always as identity primary key,
  asked timestamptz not null default clock_timestamp(),
  due timestamptz not null default clock_timestamp(), -- the next attempt
  refused timestamptz,           -- null = pending
  ns integer not null,
  attempts integer not null default 0,
  delayed boolean not null default false, -- it, or an earlier one of its run, was put off
  p smallint not null,           -- partition of the run
  kind smallint not null,        -- 1 start, 2 signal, 3 cancel
  token uuid not null default gen_random_uuid(), -- incarnation of the run, or idempotency key of the signal
  role text not null default session_user,
  run text collate "C" not null,
  name text not null,            -- workflow or signal
  options jsonb not null default '{}',
  reason text,                   -- of the newest attempt
  data bytea not null            -- input or payload
) with (autovacuum_vacuum_scale_factor = 0.02);
create index request_due on wfhost.request (delayed, due) where refused is null;
create index request_run on wfhost.request (ns, run, id) where refused is null;
create index request_refused on wfhost.request (id) where refused is not null;

-- partition_of returns the partition of a run: FNV-1a 64 over the namespace and the id, modulo 64. The lowest 6 bits of the product
-- depend on the lowest 6 bits of its factors only.
create function wfhost.partition_of(ns integer, run text) returns smallint language plpgsql immutable
set search_path = pg_catalog, pg_temp as $$
declare
  b bytea := int4send(ns) || convert_to(run, 'UTF8');
  h integer := 37;
begin
  for i in 0..octet_length(b) - 1 loop
    h := ((h # get_byte(b, i)) * 51) & 63;
  end loop;
  return h;
end $$;

-- bad raises the error of an argument that is wrong.
create function wfhost.bad(message text) returns void language plpgsql as $$
begin
  raise exception '%', message using errcode = 'invalid_parameter_value';
end $$;

-- check_run and check_name say what abi.CheckRunID and abi.CheckName say.
create function wfhost.check_run(run text) returns void language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  if run is null then
    perform wfhost.bad('run id must not be null');
  elsif octet_length(run) not between 1 and 128 then
    perform wfhost.bad(format('run id must have 1 to 128 bytes, got %s', octet_length(run)));
  elsif run !~ '^[A-Za-z0-9._:~-]+$' then
    perform wfhost.bad(format('run id may hold the letters A-Z a-z, digits and ._:~-, got "%s"', left(run, 64)));
  end if;
end $$;

create function wfhost.check_name(what text, name text) returns void language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
  if name is null then
    perform wfhost.bad(what || ' must not be null');
  elsif octet_length(name) not between 1 and 256 then
    perform wfhost.bad(format('%s must have 1 to 256 bytes, got %s', what, octet_length(name)));
  elsif name ~ '[\u0001-\u001f\u007f-\u009f]' then
    perform wfhost.bad(format('%s must not hold control characters', what));
  elsif starts_with(name, 'wasi/') or starts_with(name, 'host/') then
    perform wfhost.bad(format('%s must not begin with "wasi/" or "host/", which are reserved, got "%s"', what, left(name, 64)));
  end if;
end $$;

-- payload returns the bytes of a JSON value, or bytes that are given in its place; they have at most 1 MiB.
create function wfhost.payload(what text, value jsonb, bytes bytea) returns bytea language plpgsql
set search_path = pg_catalog, pg_temp as $$
begin
  if value is not null and bytes is not null then
    perform wfhost.bad(format('%s is given as JSON or as bytes, not both', what));
  end if;
  bytes := coalesce(bytes, convert_to(value::text, 'UTF8'), '');
  if octet_length(bytes) > 1048576 then
    perform wfhost.bad(format('%s has %s bytes, the limit is 1048576', what, octet_length(bytes)));
  end if;
  return bytes;
end $$;

-- ask records a request. Its arguments have the collation C, and not that of the caller's columns. The channel wakes the server when the transaction is committed.
create function wfhost.ask(kind smallint, namespace text, run text, name text, data bytea, options jsonb) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  of integer := 0;
begin
  if namespace is distinct from 'default' then
    select n.id into of from wfhost.namespace n where n.name = ask.namespace;
    if not found then
      perform wfhost.bad(format('there is no namespace %s', coalesce('"' || left(namespace, 64) || '"', 'null')));
    end if;
  end if;
  insert into wfhost.request (ns, p, kind, run, name, data, options)
    values (of, wfhost.partition_of(of, run), kind, run, name, data, jsonb_strip_nulls(options));
  if coalesce(current_setting('wfhost.notify', true), '') <> 'off' then
    perform pg_notify('wfhost_request', '');
  end if;
end $$;

-- new_run_id returns a UUID of version 7: 48 bits of Unix milliseconds, then random bits.
create function wfhost.new_run_id() returns text language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
  b bytea := uuid_send(gen_random_uuid());
begin
  b := substring(int8send(floor(extract(epoch from clock_timestamp()) * 1000)::bigint) from 3) || substring(b from 7);
  return encode(set_byte(b, 6, get_byte(b, 6) & 15 | 112), 'hex')::uuid::text;
end $$;

create function wfhost.check_attributes(attributes jsonb) returns void language plpgsql
set search_path = pg_catalog, pg_temp as $$
declare
  a record;
  n integer := 0;
begin
  if jsonb_typeof(attributes) <> 'object' then
    perform wfhost.bad(format('attributes must be a JSON object, got %s', jsonb_typeof(attributes)));
  end if;
  for a in select x.key, x.value #>> '{}' as text, jsonb_typeof(x.value) as type from jsonb_each(attributes) x loop
    n := n + 1;
    perform wfhost.check_name('attribute name', a.key);
    if a.type <> 'string' then
      perform wfhost.bad(format('attribute "%s" must be a text, got %s', a.key, a.type));
    elsif octet_length(a.text) > 1024 then
      perform wfhost.bad(format('attribute "%s" has %s bytes, the limit is 1024', a.key, octet_length(a.text)));
    elsif a.text ~ '[\u0001-\u001f\u007f-\u009f]' then
      perform wfhost.bad(format('attribute "%s" must not hold control characters', a.key));
    end if;
  end loop;
  if n > 64 then
    perform wfhost.bad(format('%s attributes, the limit is 64', n));
  end if;
end $$;

-- start asks for a run, and returns its id. The run begins if and only if the transaction commits.
create function wfhost.start(
  workflow text, run text default null, input jsonb default null, namespace text default 'default', version integer default null,
  attributes jsonb default null, memo jsonb default null, at timestamptz default null, timeout interval default null,
  on_conflict text default 'existing', priority integer default 0, traceparent text default null, input_bytes bytea default null
) returns text language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  last constant bigint := 253402300799999; -- the end of the year 9999
  at_ms numeric := floor(extract(epoch from at) * 1000);
  timeout_ms numeric := ceil(extract(epoch from timeout) * 1000);
begin
  if workflow is null then
    perform wfhost.bad('workflow name must not be null');
  elsif octet_length(workflow) not between 1 and 128 then
    perform wfhost.bad(format('workflow name must have 1 to 128 bytes, got %s', octet_length(workflow)));
  elsif workflow collate "C" !~ '^[A-Za-z0-9][A-Za-z0-9._-]*$' then
    perform wfhost.bad(format('workflow name may hold the letters A-Z a-z, digits and ._-, and begins with a letter or digit, got "%s"',
      left(workflow, 64)));
  end if;
  if run is null then
    run := wfhost.new_run_id();
  end if;
  perform wfhost.check_run(run collate "C");
  input_bytes := wfhost.payload('the input', input, input_bytes);
  if version < 1 then
    perform wfhost.bad(format('version must be 1 or more, got %s', version));
  end if;
  if attributes is not null then
    perform wfhost.check_attributes(attributes);
  end if;
  if octet_length(memo::text) > 2048 then
    perform wfhost.bad(format('the memo has %s bytes as jsonb, the limit is 2048', octet_length(memo::text)));
  end if;
  if at_ms not between 0 and last then
    perform wfhost.bad(format('at must be an instant from 1970 to 9999, got %s', at));
  end if;
  if timeout_ms not between 0 and last then
    perform wfhost.bad(format('timeout must not be negative or longer than 8000 years, got %s', timeout));
  end if;
  if on_conflict is null or on_conflict collate "C" not in ('existing', 'fail', 'terminate', 'replace') then
    perform wfhost.bad(format('on_conflict must be existing, fail, terminate or replace, got %s',
      coalesce('"' || left(on_conflict, 64) || '"', 'null')));
  end if;
  if priority is null or priority not between -100 and 100 then
    perform wfhost.bad(format('a priority is from -100 to 100, got %s', coalesce(priority::text, 'null')));
  end if;
  if octet_length(traceparent) > 256 then
    perform wfhost.bad(format('traceparent has %s bytes, the limit is 256', octet_length(traceparent)));
  end if;
  perform wfhost.ask(1::smallint, namespace collate "C", run, workflow, input_bytes, jsonb_build_object('version', version,
    'attributes', attributes, 'memo', memo::text, 'at_ms', at_ms, 'timeout_ms', timeout_ms, 'on_conflict', on_conflict,
    'priority', priority, 'traceparent', traceparent));
  return run;
end $$;

-- signal asks for a signal to a run, which may be started earlier in the same transaction.
create function wfhost.signal(
  run text, name text, payload jsonb default null, namespace text default 'default', idempotency_key text default null,
  payload_bytes bytea default null
) returns void language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  perform wfhost.check_run(run collate "C");
  perform wfhost.check_name('signal name', name collate "C");
  if idempotency_key is not null then
    perform wfhost.check_name('idempotency key', idempotency_key collate "C");
  end if;
  perform wfhost.ask(2::smallint, namespace collate "C", run, name, wfhost.payload(format('the payload of signal "%s"', name),
    payload, payload_bytes), jsonb_build_object('idempotency_key', idempotency_key));
end $$;

-- cancel asks a run to end.
create function wfhost.cancel(run text, namespace text default 'default') returns void language plpgsql security definer
set search_path = pg_catalog, pg_temp as $$
begin
  perform wfhost.check_run(run collate "C");
  perform wfhost.ask(3::smallint, namespace collate "C", run, '', '', '{}');
end $$;

-- retry_request has a request tried again at once, whether it is pending or was refused. False if there is none.
create function wfhost.retry_request(request bigint) returns boolean language plpgsql security definer
set search_path = pg_catalog, pg_temp as $$
begin
  update wfhost.request q set refused = null, attempts = 0, delayed = false, due = clock_timestamp()
    where q.id = request;
  if found then
    perform pg_notify('wfhost_request', '');
  end if;
  return found;
end $$;

-- delete_request deletes a request that is pending or was refused. False if there is none. A pending request may be done already.
create function wfhost.delete_request(request bigint) returns boolean language plpgsql security definer
set search_path = pg_catalog, pg_temp as $$
begin
  delete from wfhost.request q where q.id = request;
  return found;
end $$;

-- They act with the rights of the owner of the schema, so each role needs a grant.
revoke execute on function wfhost.start, wfhost.signal, wfhost.cancel, wfhost.retry_request, wfhost.delete_request from public;

-- take_requests returns requests that are due, of runs of the given partitions (null: of all), but not of the runs in skip_*. It
-- begins with the longest due, and returns those of at most `most` runs, with about most_bytes of data. Half of the runs have new
-- requests if there are enough, so that these do not wait for what was put off again and again. A request waits while an earlier
-- one of its run waits. Nothing marks those that were returned.
create function wfhost.take_requests(ps smallint[], skip_ns integer[], skip_run text[], most integer, most_bytes bigint)
returns setof wfhost.request language plpgsql as $$
declare
  now constant timestamptz := clock_timestamp();
begin
  update wfhost.request q set due = h.due, delayed = true
    from (select distinct x.ns, x.run from (values (false), (true)) lane(delayed) cross join lateral (
        select r.ns, r.run from wfhost.request r
          where r.refused is null and r.delayed = lane.delayed and r.due <= now order by r.due limit most) x) d
      cross join lateral (
        select r.due from wfhost.request r where r.ns = d.ns and r.run = d.run and r.refused is null order by r.id limit 1) h
    where q.ns = d.ns and q.run = d.run and q.refused is null and q.due <= now and h.due > now;
  return query
    with d as (
        select y.ns, y.run from (
          select x.ns, x.run, lane.delayed, row_number() over (partition by lane.delayed order by x.due) as place
          from (values (false), (true)) lane(delayed) cross join lateral (
            select r.ns, r.run, r.due from wfhost.request r
              where r.refused is null and r.delayed = lane.delayed and r.due <= now and (ps is null or r.p = any(ps))
                and not exists (select from unnest(skip_ns, skip_run) k(ns, run) where k.ns = r.ns and k.run = r.run)
              order by r.due limit most) x
          order by place, lane.delayed limit most) y
        group by y.ns, y.run),
      page as (
        select q.id, first_value(q.due) over (partition by q.ns, q.run order by q.id) as head,
          sum(octet_length(q.data)) over (order by q.id) - octet_length(q.data) as before
        from d cross join lateral (
          select r.id, r.ns, r.run, r.due, r.data from wfhost.request r where r.ns = d.ns and r.run = d.run and r.refused is null
            order by r.id limit 100) q)
    select q.* from page join wfhost.request q on q.id = page.id where page.head <= now and page.before < most_bytes order by q.id;
end $$;

-- end_requests deletes the requests that are done, puts others off by some milliseconds, and keeps the refused ones.
create function wfhost.end_requests(
  done bigint[], later bigint[], later_ms bigint[], later_reason text[], refused bigint[], refused_reason text[]
) returns void language plpgsql as $$
begin
  delete from wfhost.request q where q.id = any(done);
  update wfhost.request q set attempts = q.attempts + 1, delayed = true, reason = x.reason,
      due = clock_timestamp() + x.ms * interval '1 millisecond'
    from unnest(later, later_ms, later_reason) x(id, ms, reason) where q.id = x.id;
  update wfhost.request q set attempts = q.attempts + 1, reason = x.reason, refused = clock_timestamp()
    from unnest(end_requests.refused, refused_reason) x(id, reason) where q.id = x.id;
end $$;
