-- Views for people and their tools. Records are decoded here; the layout is that of FORMAT.md. Whatever is sealed is null.

-- bytes_text returns bytes as text, with escapes if they are none.
create function wfhost.bytes_text(b bytea) returns text language plpgsql immutable set search_path = pg_catalog, pg_temp as $$
begin
  return convert_from(b, 'UTF8');
exception when others then
  return encode(b, 'escape');
end $$;

-- bytes_json returns bytes as JSON, null if they are none.
create function wfhost.bytes_json(b bytea) returns jsonb language plpgsql immutable set search_path = pg_catalog, pg_temp as $$
begin
  return convert_from(b, 'UTF8')::jsonb;
exception when others then
  return null;
end $$;

-- field returns one field of a record: a number as it is stored, or bytes. Both are null if the record does not have it.
create function wfhost.field(record bytea, wanted integer, out number bigint, out bytes bytea) language plpgsql immutable
set search_path = pg_catalog, pg_temp as $$
declare
  b bytea := record || ''; -- one copy, not compressed
  n integer := octet_length(b) - 4;
  at integer := 1;
  tag integer;
  v bigint;
  c integer;
  shift integer;
begin
  if n < 1 or get_byte(b, 0) <> 1 then
    return;
  end if;
  while at < n loop
    tag := get_byte(b, at);
    at := at + 1;
    v := 0;
    shift := 0;
    loop
      if at >= n or shift > 63 then
        return;
      end if;
      c := get_byte(b, at);
      at := at + 1;
      v := v | ((c & 127)::bigint << shift);
      exit when c < 128;
      shift := shift + 7;
    end loop;
    if tag >> 1 > wanted then
      return;
    elsif tag & 1 = 0 then
      if tag >> 1 = wanted then
        number := v;
        return;
      end if;
    else
      if v < 0 or v > n - at then
        return;
      elsif tag >> 1 = wanted then
        bytes := substring(b from at + 1 for v::integer);
        return;
      end if;
      at := at + v::integer;
    end if;
  end loop;
end $$;

-- unzigzag returns a signed number as it was before it was stored.
create function wfhost.unzigzag(v bigint) returns bigint language sql immutable as $$
  select ((v >> 1) & 9223372036854775807) # -(v & 1)
$$;

-- entries decodes the entries of some kinds. data has entries behind each other, each after its length as an uvarint.
create function wfhost.entries(data bytea, kinds integer[]) returns table (
  seq bigint, kind integer, ms bigint, handle bigint, name bytea, target bytea, input bytea, options bytea, refused boolean,
  code bigint, result bytea, attempt bigint, ref bigint, sealed boolean
) language plpgsql immutable set search_path = pg_catalog, pg_temp as $$
declare
  b bytea := data || '';
  n integer := octet_length(b);
  at integer := 0;
  stop integer; -- the end of the record's fields
  tag integer;
  v bigint;
  c integer;
  shift integer;
begin
  while at < n loop
    stop := null;
    tag := -1; -- the first number is the length of the record
    seq := 0; kind := 0; ms := 0; handle := null; name := null; target := null; input := null; options := null;
    refused := false; code := 0; result := null; attempt := 0; ref := 0; sealed := false;
    loop
      if tag >= 0 then
        tag := get_byte(b, at);
        at := at + 1;
      end if;
      v := 0;
      shift := 0;
      loop
        if at >= n or shift > 63 then
          return;
        end if;
        c := get_byte(b, at);
        at := at + 1;
        v := v | ((c & 127)::bigint << shift);
        exit when c < 128;
        shift := shift + 7;
      end loop;
      if tag < 0 then
        if v < 5 or v > n - at or get_byte(b, at) <> 1 then
          return;
        end if;
        stop := at + v::integer - 4;
        at := at + 1;
        tag := 0;
      elsif tag & 1 = 0 then
        case tag >> 1
          when 1 then seq := v;
          when 2 then
            kind := v;
            if not kind = any(kinds) then
              at := stop;
            end if;
          when 3 then ms := wfhost.unzigzag(v);
          when 4 then handle := wfhost.unzigzag(v);
          when 10 then refused := true;
          when 11 then code := wfhost.unzigzag(v);
          when 15 then attempt := v;
          when 18 then ref := v;
          when 19 then sealed := true;
          else
        end case;
      else
        if v < 0 or v > stop - at then
          return;
        end if;
        case tag >> 1
          when 6 then name := substring(b from at + 1 for v::integer);
          when 7 then target := substring(b from at + 1 for v::integer);
          when 8 then input := substring(b from at + 1 for v::integer);
          when 9 then options := substring(b from at + 1 for v::integer);
          when 12 then result := substring(b from at + 1 for v::integer);
          else
        end case;
        at := at + v::integer;
      end if;
      exit when at >= stop;
    end loop;
    at := stop + 4;
    if kind = any(kinds) then
      return next;
    end if;
  end loop;
end $$;

-- step_rows returns the steps of the journal of one iteration. Entries that a retry has voided do not count.
create function wfhost.step_rows(data bytea) returns table (
  seq bigint, name bytea, handler bytea, status text, attempts integer, called_ms bigint, ended_ms bigint, input bytea,
  result bytea, failure bytea
) language sql immutable set search_path = pg_catalog, pg_temp as $$
  with e as materialized (select * from wfhost.entries(data, '{4,5,33,34,39,65,66,96,97,98,99,100}')),
    void as materialized (
      select v.seq from e r cross join lateral (
        select g.seq from generate_series(r.ref, r.seq - 1) g(seq) where r.options is null
        union all
        select x::bigint from jsonb_array_elements_text(wfhost.bytes_json(r.options) -> 'void') x) v
      where r.kind = 5),
    live as materialized (select * from e where not exists (select from void v where v.seq = e.seq)),
    done as materialized (
      select x.handle, max(x.attempt) as attempts, max(x.kind) filter (where x.kind in (65, 66)) as outcome,
        max(x.ms) filter (where x.kind in (65, 66) or x.kind = 39 and x.code = 0) as ended,
        bool_or(x.kind = 39 and x.code = 0) as withdrawn,
        (array_agg(x.result order by x.seq desc) filter (where x.kind = 65))[1] as result,
        (array_agg(x.result order by x.seq desc) filter (where x.kind in (4, 66)))[1] as failure
      from live x where x.kind in (4, 39, 65, 66) and x.handle is not null group by x.handle),
    over as (select max(x.ms) as ms from live x where x.kind between 96 and 100)
  select c.seq, c.name, c.target,
    case when c.sealed then null when c.refused then 'refused' when d.outcome = 65 then 'completed' when d.outcome = 66 then 'failed'
      when d.withdrawn or over.ms is not null then 'withdrawn' else 'open' end,
    case when not c.sealed then coalesce(d.attempts, 0)::integer end, c.ms,
    case when c.refused then c.ms when not c.sealed then coalesce(d.ended, over.ms) end, c.input, d.result,
    case when c.refused then c.result when d.outcome is distinct from 65 then d.failure end
  from live c cross join over left join done d on d.handle = c.handle and not c.refused
  where c.kind in (33, 34)
$$;

-- failure_of returns the failure with which a journal ends, as it was recorded.
create function wfhost.failure_of(data bytea) returns jsonb language sql immutable set search_path = pg_catalog, pg_temp as $$
  select wfhost.bytes_json(e.result) from wfhost.entries(data, '{97}') e where not e.sealed order by e.seq desc limit 1
$$;

-- state_text returns a text of a state, null if it is empty or sealed.
create function wfhost.state_text(state bytea, wanted integer) returns text language sql immutable
set search_path = pg_catalog, pg_temp as $$
  select case when (wfhost.field(state, 32)).number is null then wfhost.bytes_text((wfhost.field(state, wanted)).bytes) end
$$;

-- Runs arrive in the order of their creation, more or less, so a small index finds those of some time.
create index run_time on wfhost.run using brin ((to_timestamp(created / 1000::float8)), (to_timestamp(ended / 1000::float8)))
  with (pages_per_range = 32, autosummarize = on);

create view wfhost.namespaces as
  select 0 as id, 'default'::text collate "C" as name union all select n.id, n.name from wfhost.namespace n;

-- named_run has the runs that are not deleted, with the names of their namespaces.
create view wfhost.named_run as
  select n.name as namespace, r.* from wfhost.run r join wfhost.namespaces n on n.id = r.ns where not r.deleted;

-- A query for a status has one of these parts left, whose frequency the statistics know. A busy run is listed under an earlier
-- status, so it is looked for in another index.
create view wfhost.runs as
  select r.namespace, r.id, r.workflow, r.version, r.shown as status,
    to_timestamp(r.created / 1000::float8) as created,
    to_timestamp(wfhost.unzigzag((wfhost.field(r.state, 12)).number) / 1000::float8) as started,
    to_timestamp(wfhost.unzigzag((wfhost.field(r.state, 13)).number) / 1000::float8) as updated,
    to_timestamp(r.ended / 1000::float8) as ended,
    case when r.status in (3, 4) then to_timestamp(coalesce(r.due, r.wake) / 1000::float8) end as wake,
    r.iteration, r.attributes,
    case when r.status in (4, 6) then wfhost.state_text(r.state, 9) end as reason,
    case when r.status = 8 then wfhost.state_text(r.state, 9) end as error,
    wfhost.bytes_text((wfhost.field(r.state, 29)).bytes) as parent,
    wfhost.bytes_json(convert_to(wfhost.state_text(r.state, 39), 'UTF8')) as memo
  from (
    select r.*, 'sleeping'::text as shown from wfhost.named_run r where r.listed = 3 and not r.busy
    union all
    select r.*, 'waiting' from wfhost.named_run r where r.listed = 4 and not r.busy
    union all
    select r.*, 'paused' from wfhost.named_run r where r.listed = 5 and not r.busy
    union all
    select r.*, 'stuck' from wfhost.named_run r where r.listed = 6 and not r.busy
    union all
    select r.*, 'completed' from wfhost.named_run r where r.listed = 7 and not r.busy
    union all
    select r.*, 'failed' from wfhost.named_run r where r.listed = 8 and not r.busy
    union all
    select r.*, 'cancelled' from wfhost.named_run r where r.listed = 9 and not r.busy
    union all
    select r.*, 'terminated' from wfhost.named_run r where r.listed = 10 and not r.busy
    union all
    select r.*, 'queued' from wfhost.named_run r where r.status = 1 and r.busy
    union all
    select r.*, 'running' from wfhost.named_run r where r.status = 2 and r.busy) r;

-- Of an iteration before the first kept one, the beginning of its journal may be left.
create view wfhost.steps as
  select r.namespace, r.id as run, r.workflow, i.iteration, s.seq, wfhost.bytes_text(s.name) as name,
    wfhost.bytes_text(s.handler) as handler, s.status, s.attempts,
    to_timestamp(s.called_ms / 1000::float8) as called, to_timestamp(s.ended_ms / 1000::float8) as ended,
    wfhost.bytes_json(s.failure) ->> 'message' as error,
    wfhost.bytes_json(s.input) as input, wfhost.bytes_json(s.result) as result
  from wfhost.named_run r
  cross join lateral (
    select x.iteration, string_agg(x.data, ''::bytea order by x.first) as data from (
      select c.iteration, c.first, c.data from wfhost.chunk c where c.ns = r.ns and c.id = r.id
      union all
      select r.iteration, r.tail_first, r.tail) x
    where r.iteration = 0 or x.iteration >= coalesce((wfhost.field(r.state, 42)).number, 0)
    group by x.iteration) i
  cross join lateral wfhost.step_rows(i.data) s;

create view wfhost.failures as
  select r.namespace, r.id as run, r.workflow, r.version, r.shown as status,
    to_timestamp(case r.status when 8 then r.ended else wfhost.unzigzag((wfhost.field(r.state, 13)).number) end / 1000::float8) as at,
    coalesce(f.failure ->> 'message', wfhost.state_text(r.state, 9)) as error,
    f.failure ->> 'code' as code, f.failure ->> 'name' as step,
    case when jsonb_typeof(f.failure -> 'attempts') = 'number' then (f.failure ->> 'attempts')::numeric end as attempts, f.failure
  from (
    select r.*, 'failed'::text as shown from wfhost.named_run r where r.listed = 8 and not r.busy
    union all
    select r.*, 'stuck' from wfhost.named_run r where r.listed = 6 and not r.busy) r
  left join lateral (
    select wfhost.failure_of(coalesce(nullif(r.tail, ''), (
      select c.data from wfhost.chunk c where c.ns = r.ns and c.id = r.id and c.iteration = r.iteration
        order by c.first desc limit 1))) as failure) f on r.status = 8;

create view wfhost.requests as
  select q.id, case q.kind when 1 then 'start' when 2 then 'signal' else 'cancel' end as kind, n.name as namespace, q.run,
    nullif(q.name, '') as name, q.role, q.asked, q.attempts, case when q.refused is null then q.due end as next_attempt,
    q.refused, q.reason
  from wfhost.request q
  join wfhost.namespaces n on n.id = q.ns;
