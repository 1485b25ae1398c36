-- The mark of `wfhost store copy`, as JSON: why no host may open the store.
create table wfhost.transfer (one boolean primary key default true check (one), mark text not null);
