//! The scripted upstream answers as its script says, on each transport and in each era.
