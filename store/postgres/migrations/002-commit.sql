-- A commit is one call of one of these functions: one round trip and one transaction. They are volatile, so each statement sees
-- what was committed before it, and the fence is read after its lock was taken.
--
-- Classes of advisory locks: 7763001 partitions, 7763002 queues, 7763003 settings, 7763004 migrations.

-- check_isolation raises WF008 unless each statement sees what was committed before it. Otherwise a check after a lock would read
-- what was there before the lock.
create function wfhost.check_isolation() returns void language plpgsql as $$
begin
  if current_setting('transaction_isolation') <> 'read committed' then
    raise exception 'transactions are %, wfhost needs read committed', current_setting('transaction_isolation') using
      errcode = 'WF008', hint = 'Set default_transaction_isolation of the role.';
  end if;
end $$;

-- fence locks partitions against Acquire until the end of the transaction, and raises WF001 with the first partition whose token
-- is another one.
create function wfhost.fence(ps smallint[], tokens uuid[]) returns void language plpgsql as $$
declare
  bad smallint;
begin
  perform wfhost.check_isolation();
  for i in 1..coalesce(cardinality(ps), 0) loop
    perform pg_catalog.pg_advisory_xact_lock_shared(7763001, ps[i]::integer);
  end loop;
  if cardinality(ps) = 1 then
    perform 1 from wfhost.partition o where o.p = ps[1] and o.token = tokens[1];
    if not found then
      raise exception 'partition % is owned by another host', ps[1] using errcode = 'WF001', detail = ps[1];
    end if;
    return;
  end if;
  select x.p into bad from unnest(ps, tokens) x(p, token)
    where not exists (select 1 from wfhost.partition o where o.p = x.p and o.token = x.token) limit 1;
  if found then
    raise exception 'partition % is owned by another host', bad using errcode = 'WF001', detail = bad;
  end if;
end $$;

-- acquire takes a partition; with if_free only from an owner that is no live member, or is the caller: mine is the token of its
-- membership. WF009 otherwise.
create function wfhost.acquire(part smallint, new_token uuid, new_owner text, if_free boolean, mine uuid) returns bigint
language plpgsql as $$
declare
  e bigint;
  live_owner text;
begin
  perform wfhost.check_isolation();
  -- The wait ends before the caller's, so that no call takes the partition after the caller has called again.
  perform set_config('lock_timeout', '15s', true);
  perform pg_catalog.pg_advisory_xact_lock(7763001, part::integer); -- waits for commits in flight
  if if_free then
    live_owner := (select o.owner from wfhost.partition o join wfhost.member m on m.name = o.owner
      where o.p = part and o.token is not null and m.token is distinct from mine and wfhost.live(m.until, m.ttl));
    if live_owner is not null then
      raise exception '%', live_owner using errcode = 'WF009';
    end if;
  end if;
  update wfhost.partition o set epoch = o.epoch + 1, token = new_token, owner = new_owner where o.p = part returning o.epoch into e;
  return e;
end $$;

-- send puts commands into inboxes: x_n[i] of them into the inbox x_p[i]. x_p ascends. It is the last thing of a transaction: the
-- lock of inbox_seq is held until the commit is durable, and makes numbers visible in their order.
create function wfhost.send(x_p smallint[], x_n integer[], x_command bytea[]) returns void language plpgsql as $$
declare
  last bigint;
  at integer := 0;
begin
  for i in 1..coalesce(cardinality(x_p), 0) loop
    update wfhost.inbox_seq s set newest = s.newest + x_n[i] where s.p = x_p[i] returning s.newest into last;
    for k in 1..x_n[i] loop
      insert into wfhost.inbox (p, seq, command) values (x_p[i], last - x_n[i] + k, x_command[at + k]);
    end loop;
    at := at + x_n[i];
  end loop;
end $$;

-- commit makes the changes of runs: inserts those with a null r_rev, updates the others. WF003 if a run is not as the commit
-- expects: rev counts its commits, so it also says how long the journal is. The detail is the index in r_*.
create function wfhost.commit(
  ps smallint[], tokens uuid[],
  r_ns integer[], r_id text[], r_p smallint[], r_rev bigint[], r_iteration integer[], r_status smallint[], r_listed smallint[],
  r_deleted boolean[], r_workflow text[], r_version integer[], r_created bigint[], r_wake bigint[], r_due bigint[],
  r_ended bigint[], r_attributes text[], r_tail_first bigint[], r_tail bytea[], r_flush smallint[], r_state bytea[],
  c_ns integer[], c_id text[], c_iteration integer[], c_first bigint[], c_data bytea[],
  n_lane smallint, n_ns integer[], n_workflow text[], n_version integer[], n_status smallint[], n_n bigint[]
) returns void language plpgsql as $$
begin
  perform wfhost.fence(ps, tokens);
  for i in 1..coalesce(cardinality(r_id), 0) loop
    if r_rev[i] is null then
      insert into wfhost.run (created, wake, due, ended, tail_first, ns, rev, iteration, version, p, status, listed, busy, timer,
        deleted, id, workflow, attributes, tail, state)
      values (r_created[i], r_wake[i], r_due[i], r_ended[i], r_tail_first[i], r_ns[i], 0, r_iteration[i], r_version[i], r_p[i],
        r_status[i], r_listed[i], not r_deleted[i] and r_status[i] in (1, 2),
        not r_deleted[i] and r_status[i] in (3, 4) and r_wake[i] is not null,
        r_deleted[i], r_id[i], r_workflow[i], r_attributes[i]::jsonb, r_tail[i], r_state[i]);
      continue;
    end if;
    if r_flush[i] = 2 then -- the tail becomes a chunk
      insert into wfhost.chunk (first, ns, iteration, id, data)
        select r.tail_first, r.ns, r.iteration, r.id, r.tail from wfhost.run r
        where r.ns = r_ns[i] and r.id = r_id[i] and r.rev = r_rev[i];
    end if;
    update wfhost.run r set
      wake = r_wake[i], due = r_due[i], ended = r_ended[i], rev = r.rev + 1, iteration = r_iteration[i],
      version = r_version[i], status = r_status[i], listed = r_listed[i], busy = r_status[i] in (1, 2),
      timer = r_status[i] in (3, 4) and r_wake[i] is not null, attributes = r_attributes[i]::jsonb,
      created = r_created[i], workflow = r_workflow[i],
      tail_first = case r_flush[i] when 0 then r.tail_first else r_tail_first[i] end,
      tail = case r_flush[i] when 0 then r.tail || r_tail[i] else r_tail[i] end,
      state = r_state[i]
    where r.ns = r_ns[i] and r.id = r_id[i] and r.rev = r_rev[i];
    if not found then
      raise exception 'run % has changed', r_id[i] using errcode = 'WF003', detail = i;
    end if;
  end loop;
  for i in 1..coalesce(cardinality(c_id), 0) loop
    insert into wfhost.chunk (first, ns, iteration, id, data) values (c_first[i], c_ns[i], c_iteration[i], c_id[i], c_data[i]);
  end loop;
  for i in 1..coalesce(cardinality(n_n), 0) loop
    insert into wfhost.count as c (n, ns, version, status, lane, workflow)
      values (n_n[i], n_ns[i], n_version[i], n_status[i], n_lane, n_workflow[i])
      on conflict (ns, workflow, version, status, lane) do update set n = c.n + excluded.n;
  end loop;
end $$;

-- delete removes runs with all their records. A null d_rev takes a run as it is.
create function wfhost.delete(d_ns integer[], d_id text[], d_rev bigint[]) returns void language plpgsql as $$
begin
  for i in 1..coalesce(cardinality(d_id), 0) loop
    delete from wfhost.run r where r.ns = d_ns[i] and r.id = d_id[i] and r.rev = d_rev[i];
    if not found then
      raise exception 'run % has changed', d_id[i] using errcode = 'WF004', detail = i;
    end if;
    delete from wfhost.chunk c where c.ns = d_ns[i] and c.id = d_id[i];
    delete from wfhost.log l where l.ns = d_ns[i] and l.id = d_id[i];
    delete from wfhost.output o where o.ns = d_ns[i] and o.id = d_id[i];
  end loop;
end $$;

-- set_cells compares one cell of each queue (null: it must not exist), and sets cells (null: deletes them). With y_expired, a
-- cell is deleted if it still has the value. WF005 if a cell differs; the detail is the index in q_*.
create function wfhost.set_cells(
  q_ns integer[], q_queue text[], q_key bytea[], q_value bytea[],
  y_ns integer[], y_queue text[], y_key bytea[], y_value bytea[], y_expired boolean[]
) returns void language plpgsql as $$
declare
  h integer;
  now bytea;
begin
  perform wfhost.check_isolation();
  for h in select distinct pg_catalog.hashtext(x.ns || ' ' || x.queue) from unnest(q_ns, q_queue) x(ns, queue) order by 1 loop
    perform pg_catalog.pg_advisory_xact_lock(7763002, h);
  end loop;
  for i in 1..coalesce(cardinality(q_queue), 0) loop
    now := (select c.value from wfhost.cell c where c.ns = q_ns[i] and c.queue = q_queue[i] and c.key = q_key[i]);
    if now is distinct from q_value[i] then
      raise exception 'cell of queue % has changed', q_queue[i] using errcode = 'WF005', detail = i;
    end if;
  end loop;
  for i in 1..coalesce(cardinality(y_queue), 0) loop
    if y_expired[i] then
      delete from wfhost.cell c where c.ns = y_ns[i] and c.queue = y_queue[i] and c.key = y_key[i] and c.value = y_value[i];
    elsif y_value[i] is null then
      delete from wfhost.cell c where c.ns = y_ns[i] and c.queue = y_queue[i] and c.key = y_key[i];
    else
      insert into wfhost.cell (ns, queue, key, value) values (y_ns[i], y_queue[i], y_key[i], y_value[i])
        on conflict (ns, queue, key) do update set value = excluded.value;
    end if;
  end loop;
end $$;

-- set_schedules writes schedules. s_revision is the revision to replace, 0 for a new one; null data deletes. WF006 if it differs;
-- the detail is the index in s_*.
create function wfhost.set_schedules(
  s_ns integer[], s_id text[], s_p smallint[], s_revision bigint[], s_wake bigint[], s_due bigint[], s_data bytea[]
) returns void language plpgsql as $$
begin
  for i in 1..coalesce(cardinality(s_id), 0) loop
    if s_revision[i] = 0 and s_data[i] is not null then
      insert into wfhost.schedule (revision, wake, due, ns, p, id, data)
        values (1, s_wake[i], s_due[i], s_ns[i], s_p[i], s_id[i], s_data[i]) on conflict do nothing;
    elsif s_data[i] is null then
      delete from wfhost.schedule s where s.ns = s_ns[i] and s.id = s_id[i] and s.revision = s_revision[i];
    else
      update wfhost.schedule s set revision = s.revision + 1, wake = s_wake[i], due = s_due[i], data = s_data[i]
        where s.ns = s_ns[i] and s.id = s_id[i] and s.revision = s_revision[i];
    end if;
    if not found then
      raise exception 'schedule % has changed', s_id[i] using errcode = 'WF006', detail = i;
    end if;
  end loop;
end $$;

-- commit_rest makes the changes of a commit that few commits have, in the order in which their locks are taken.
create function wfhost.commit_rest(
  l_ns integer[], l_id text[], l_n bigint[], l_data bytea[],
  o_ns integer[], o_id text[], o_n bigint[], o_data bytea[],
  k_ns integer[], k_id text[], k_from integer[], k_to integer[],
  a_ns integer[], a_key text[], a_value text[], a_created bigint[], a_id text[], a_set boolean[],
  w_p smallint[], w_kind smallint[], w_ns integer[], w_id text[], w_wake bigint[], w_due bigint[],
  i_p smallint[], i_seq bigint[]
) returns void language plpgsql as $$
begin
  for i in 1..coalesce(cardinality(l_id), 0) loop
    insert into wfhost.log (n, ns, id, data) values (l_n[i], l_ns[i], l_id[i], l_data[i])
      on conflict (ns, id, n) do update set data = excluded.data;
  end loop;
  for i in 1..coalesce(cardinality(o_id), 0) loop
    insert into wfhost.output (n, ns, id, data) values (o_n[i], o_ns[i], o_id[i], o_data[i])
      on conflict (ns, id, n) do update set data = excluded.data;
  end loop;
  for i in 1..coalesce(cardinality(k_id), 0) loop -- the beginning of iteration 0 stays
    delete from wfhost.chunk c where c.ns = k_ns[i] and c.id = k_id[i] and c.iteration >= k_from[i] and c.iteration < k_to[i]
      and (c.iteration > 0 or c.first > 0);
  end loop;
  for i in 1..coalesce(cardinality(a_id), 0) loop
    if a_set[i] then
      insert into wfhost.attribute (ns, created, key, value, id) values (a_ns[i], a_created[i], a_key[i], a_value[i], a_id[i])
        on conflict do nothing;
    else
      delete from wfhost.attribute a where a.ns = a_ns[i] and a.key = a_key[i] and a.value = a_value[i]
        and a.created = a_created[i] and a.id = a_id[i];
    end if;
  end loop;
  for i in 1..coalesce(cardinality(w_id), 0) loop
    if w_due[i] is null then
      delete from wfhost.wake w where w.p = w_p[i] and w.wake = w_wake[i] and w.kind = w_kind[i] and w.ns = w_ns[i]
        and w.id = w_id[i];
    else
      insert into wfhost.wake (wake, due, ns, p, kind, id) values (w_wake[i], w_due[i], w_ns[i], w_p[i], w_kind[i], w_id[i])
        on conflict (p, wake, kind, ns, id) do update set due = excluded.due;
    end if;
  end loop;
  for i in 1..coalesce(cardinality(i_seq), 0) loop
    delete from wfhost.inbox x where x.p = i_p[i] and x.seq = i_seq[i];
  end loop;
end $$;

-- commit_all is commit with everything else. Runs are deleted first: a new one may replace them.
create function wfhost.commit_all(
  ps smallint[], tokens uuid[],
  r_ns integer[], r_id text[], r_p smallint[], r_rev bigint[], r_iteration integer[], r_status smallint[], r_listed smallint[],
  r_deleted boolean[], r_workflow text[], r_version integer[], r_created bigint[], r_wake bigint[], r_due bigint[],
  r_ended bigint[], r_attributes text[], r_tail_first bigint[], r_tail bytea[], r_flush smallint[], r_state bytea[],
  c_ns integer[], c_id text[], c_iteration integer[], c_first bigint[], c_data bytea[],
  n_lane smallint, n_ns integer[], n_workflow text[], n_version integer[], n_status smallint[], n_n bigint[],
  d_ns integer[], d_id text[], d_rev bigint[],
  l_ns integer[], l_id text[], l_n bigint[], l_data bytea[],
  o_ns integer[], o_id text[], o_n bigint[], o_data bytea[],
  k_ns integer[], k_id text[], k_from integer[], k_to integer[],
  a_ns integer[], a_key text[], a_value text[], a_created bigint[], a_id text[], a_set boolean[],
  w_p smallint[], w_kind smallint[], w_ns integer[], w_id text[], w_wake bigint[], w_due bigint[],
  i_p smallint[], i_seq bigint[],
  q_ns integer[], q_queue text[], q_key bytea[], q_value bytea[],
  y_ns integer[], y_queue text[], y_key bytea[], y_value bytea[], y_expired boolean[],
  s_ns integer[], s_id text[], s_p smallint[], s_revision bigint[], s_wake bigint[], s_due bigint[], s_data bytea[],
  x_p smallint[], x_n integer[], x_command bytea[]
) returns void language plpgsql as $$
begin
  if cardinality(q_queue) > 0 or cardinality(d_id) > 0 or cardinality(s_id) > 0 then
    perform wfhost.fence(ps, tokens);
    perform wfhost.delete(d_ns, d_id, d_rev);
    perform wfhost.set_schedules(s_ns, s_id, s_p, s_revision, s_wake, s_due, s_data);
    perform wfhost.set_cells(q_ns, q_queue, q_key, q_value, y_ns, y_queue, y_key, y_value, y_expired);
  end if;
  perform wfhost.commit(ps, tokens, r_ns, r_id, r_p, r_rev, r_iteration, r_status, r_listed, r_deleted, r_workflow, r_version,
    r_created, r_wake, r_due, r_ended, r_attributes, r_tail_first, r_tail, r_flush, r_state,
    c_ns, c_id, c_iteration, c_first, c_data, n_lane, n_ns, n_workflow, n_version, n_status, n_n);
  perform wfhost.commit_rest(l_ns, l_id, l_n, l_data, o_ns, o_id, o_n, o_data, k_ns, k_id, k_from, k_to,
    a_ns, a_key, a_value, a_created, a_id, a_set, w_p, w_kind, w_ns, w_id, w_wake, w_due, i_p, i_seq);
  perform wfhost.send(x_p, x_n, x_command);
end $$;

-- claim writes the holder of a token (null: none), if the holder is still h_old (null: none). WF003 if it is not.
create function wfhost.claim(
  ps smallint[], tokens uuid[], h_ns integer, h_token text, h_old bytea, h_new bytea, ack bigint,
  x_p smallint[], x_n integer[], x_command bytea[]
) returns void language plpgsql as $$
begin
  perform wfhost.fence(ps, tokens);
  if h_old is null and h_new is not null then
    insert into wfhost.hook (ns, token, holder) values (h_ns, h_token, h_new) on conflict do nothing;
  elsif h_old is null then
    perform 1 where not exists (select 1 from wfhost.hook h where h.ns = h_ns and h.token = h_token);
  elsif h_new is null then
    delete from wfhost.hook h where h.ns = h_ns and h.token = h_token and h.holder = h_old;
  else
    perform 1 from wfhost.hook h where h.ns = h_ns and h.token = h_token and h.holder = h_old;
  end if;
  if not found then
    raise exception 'holder has changed' using errcode = 'WF003', detail = 0;
  end if;
  delete from wfhost.inbox x where x.p = ps[1] and x.seq = ack;
  if found or ack = 0 then -- otherwise this is a repetition, and the answer was sent
    perform wfhost.send(x_p, x_n, x_command);
  end if;
end $$;

-- discard removes commands and sends the answers to them; none if the commands were removed before, with their answers.
create function wfhost.discard(
  ps smallint[], tokens uuid[], i_seq bigint[], x_p smallint[], x_n integer[], x_command bytea[]
) returns void language plpgsql as $$
begin
  perform wfhost.fence(ps, tokens);
  delete from wfhost.inbox x where x.p = ps[1] and x.seq = any(i_seq);
  if found or coalesce(cardinality(i_seq), 0) = 0 then
    perform wfhost.send(x_p, x_n, x_command);
  end if;
end $$;

-- live reports whether a lease lasts. One that lasts longer than a lease can was written before the clock of the server went back,
-- and has ended.
create function wfhost.live(until timestamptz, ttl interval) returns boolean language sql as $$
  select until > clock_timestamp() and until <= clock_timestamp() + ttl
$$;

-- settle locks settings, versions and namespaces until the end of the transaction, and counts the change. WF007 if another process has
-- the store open than the caller; mine is the token of its lease, or null for one that has none. A client that then says nothing for 5 seconds loses its session, so that one
-- that was stopped blocks no others.
create function wfhost.settle(mine uuid) returns void language plpgsql as $$
declare
  h wfhost.holder;
begin
  perform wfhost.check_isolation();
  perform set_config('idle_in_transaction_session_timeout', '5s', true);
  perform pg_catalog.pg_advisory_xact_lock(7763003, 0);
  select * into h from wfhost.holder;
  if h.token is distinct from mine and (h.token is not null and h.until > clock_timestamp() or mine is not null
      and not exists (select 1 from wfhost.member m where m.token = mine)) then
    raise exception '%', coalesce(h.name, 'another process') using errcode = 'WF007';
  end if;
  update wfhost.generation g set settings = g.settings + 1;
end $$;

-- create_namespace returns the id of a namespace, which it creates if need be; null if there are most of them. Ids count up and
-- are never deleted, so the greatest one is their number.
create function wfhost.create_namespace(mine uuid, new_name text, new_created bigint, most integer) returns integer
language plpgsql as $$
declare
  n integer;
begin
  perform wfhost.settle(mine);
  n := (select s.id from wfhost.namespace s where s.name = new_name);
  if n is not null then
    return n;
  end if;
  n := coalesce((select max(s.id) from wfhost.namespace s), 0);
  if n >= most then
    return null;
  end if;
  insert into wfhost.namespace (id, created, name) values (n + 1, new_created, new_name);
  return n + 1;
end $$;

-- set_limits sets limits, or removes them if l_data is null, and sends commands. It returns how many other workflows have limits,
-- in all and in the namespace; if these are too many, it changes nothing.
create function wfhost.set_limits(
  mine uuid, l_ns integer, l_workflow text, l_data bytea, most bigint, most_own bigint,
  x_p smallint[], x_n integer[], x_command bytea[], out others bigint, out own bigint
) language plpgsql as $$
begin
  perform wfhost.settle(mine);
  select count(*), count(*) filter (where l.ns = l_ns) into others, own from wfhost.limits l
    where not (l.ns = l_ns and l.workflow = l_workflow);
  if l_data is null then
    delete from wfhost.limits l where l.ns = l_ns and l.workflow = l_workflow;
  elsif others >= most or own >= most_own then
    return;
  else
    insert into wfhost.limits (ns, workflow, data) values (l_ns, l_workflow, l_data)
      on conflict (ns, workflow) do update set data = excluded.data;
  end if;
  perform wfhost.send(x_p, x_n, x_command);
end $$;

-- timeline names the history of the database: the promotion of a standby and the restoration of a backup begin another one.
create function wfhost.timeline() returns text language sql as $$
  select left(pg_walfile_name(pg_current_wal_insert_lsn()), 8)
$$;

-- hold takes the lease of the store, or prolongs it, and counts the call; or it returns in taken_by the process that has the lease.
-- Only the first call takes it, and waits for changes of settings that are in flight. A lease that another process had meanwhile is
-- lost, even if that process is gone.
create function wfhost.hold(new_token uuid, new_name text, ttl_ms integer, first boolean,
  out taken_by text, out beats bigint, out timeline text) language plpgsql as $$
declare
  h wfhost.holder;
  ttl interval := ttl_ms * interval '1 millisecond';
begin
  perform wfhost.check_isolation();
  timeline := wfhost.timeline();
  if first then
    perform pg_catalog.pg_advisory_xact_lock(7763003, 0);
  end if;
  select * into h from wfhost.holder for update;
  beats := h.beats + 1;
  if first then
    taken_by := (select 'hosts that share it: ' || string_agg(m.name, ', ' order by m.name) from wfhost.member m
      where wfhost.live(m.until, m.ttl));
  end if;
  if taken_by is not null then
    return;
  end if;
  if first and h.token is not null and wfhost.live(h.until, ttl) then
    taken_by := h.name;
  elsif not first and h.token is distinct from new_token then
    taken_by := coalesce(h.name, 'another process');
  else
    update wfhost.holder o set token = new_token, name = new_name, until = clock_timestamp() + ttl, beats = hold.beats;
  end if;
end $$;

-- beat makes a host a member of those that share the store, or prolongs its membership, and counts the call; or it returns in
-- taken_by who has the store alone or, of the first call, that a live member has the name. lost: the membership had ended, and others
-- have noticed. It removes members whose lease has ended, and returns the others, the newest change of settings, the owners of
-- partitions, and the clock.
create function wfhost.beat(m_token uuid, m_name text, ttl_ms integer, first boolean, m_data jsonb, alone_ms integer,
  out taken_by text, out name_taken boolean, out lost boolean, out beats bigint, out timeline text, out settings bigint,
  out now_ms bigint, out members jsonb, out owners text[]) language plpgsql as $$
declare
  h wfhost.holder;
  o wfhost.member;
  t interval := ttl_ms * interval '1 millisecond';
begin
  perform wfhost.check_isolation();
  timeline := wfhost.timeline();
  name_taken := false;
  lost := false;
  if first then
    perform pg_catalog.pg_advisory_xact_lock(7763003, 0);
  end if;
  update wfhost.holder x set beats = x.beats + 1 returning * into h; -- so that no two beats are in flight
  beats := h.beats;
  if h.token is not null and wfhost.live(h.until, alone_ms * interval '1 millisecond') then
    taken_by := h.name;
    return;
  end if;
  delete from wfhost.member m where not wfhost.live(m.until, m.ttl) and m.token <> m_token;
  if first then
    select * into o from wfhost.member m where m.name = m_name and m.token <> m_token;
    if found then
      taken_by := m_name;
      name_taken := true;
      return;
    end if;
    insert into wfhost.member (name, token, until, ttl, data) values (m_name, m_token, clock_timestamp() + t, t, m_data)
      on conflict (name) do update set until = excluded.until, ttl = excluded.ttl, data = excluded.data;
  else
    update wfhost.member m set until = clock_timestamp() + t, ttl = t, data = m_data where m.name = m_name and m.token = m_token;
    lost := not found;
  end if;
  settings := (select g.settings from wfhost.generation g);
  members := (select jsonb_agg(m.data order by m.name) from wfhost.member m);
  owners := (select array_agg(case when exists (select 1 from wfhost.member m where m.name = p.owner) then p.owner else '' end
    order by p.p) from wfhost.partition p);
  now_ms := floor(extract(epoch from clock_timestamp()) * 1000);
end $$;
