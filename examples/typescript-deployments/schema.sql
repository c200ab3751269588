-- No unique key on purpose: a second effect would show.
create table deployments (repository text not null, sha text not null, number int not null);
create table counters (repository text primary key, deployed int not null);
